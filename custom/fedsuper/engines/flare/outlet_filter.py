"""The site's outlet as an NVFlare filter, for sites whose policy requires it of every job (`local/privacy.json`).

    {"scopes": [{"name": "fedsuper",
                 "task_data_filters": [{"path": "fedsuper.engines.flare.outlet_filter.OnlyDeclared"}],
                 "task_result_filters": [{"path": "fedsuper.engines.flare.outlet_filter.OnlyDeclared"}]}],
     "default_scope": "fedsuper"}

On the way in it remembers the question; on the way out it lets the answer pass if all of it is declared for that
question (`federation.outlet`), builds it anew from what it checked, and writes a line to the site's audit file.
Anything else stays at the site: a job whose executor is none of FedSuper's, an answer with one more key, a question it
has not seen.
"""

from __future__ import annotations

from nvflare.apis.filter import ContentBlockedException, Filter
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from fedsuper.engines.flare.answering_executor import outlet_of
from fedsuper.engines.flare.wire import pack, pack_failure, unpack
from fedsuper.errors import FedSuperError
from fedsuper.federation.door.admission import reason
from fedsuper.federation.messages import Message, SiteFailure
from fedsuper.federation.outlet.audit import write_line
from fedsuper.federation.outlet.redaction import redacted

QUESTION = "__fedsuper_question__"
PASSED = {"by": "filter"}


class OnlyDeclared(Filter):
    """Lets out what `docs/reference/what-travels.md` lists, and nothing else."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Remember what comes in, check what goes out."""
        if fl_ctx.get_prop(FLContextKey.FILTER_DIRECTION) == FilterKey.IN:
            fl_ctx.set_prop(QUESTION, self._read(shareable), private=True, sticky=False)
            return shareable
        question = fl_ctx.get_prop(QUESTION)
        fl_ctx.set_prop(QUESTION, None, private=True, sticky=False)
        code = shareable.get_return_code(ReturnCode.OK)
        if code != ReturnCode.OK:
            return make_reply(code)  # the code alone
        return FLModelUtils.to_shareable(self._released(question, self._read(shareable), fl_ctx))

    def _released(self, question: Message | SiteFailure, answer: Message | SiteFailure, fl_ctx: FLContext) -> object:
        task, outlet = str(fl_ctx.get_prop(FLContextKey.TASK_NAME)), outlet_of(fl_ctx)
        if isinstance(answer, SiteFailure):
            words = reason(redacted(FedSuperError(str(answer.reason)), []))
            if outlet.audit:
                write_line(outlet.audit, task=task, result=f"failed: {words}", **PASSED)
            return pack_failure(SiteFailure(words))
        try:
            if not isinstance(question, Message):
                raise FedSuperError("the filter has not seen the question; list it under task_data_filters as well")
            released = outlet.release(task, question, answer, **PASSED)
        except FedSuperError as problem:
            self.log_error(fl_ctx, str(problem), fire_event=False)
            raise ContentBlockedException(str(problem)) from None
        return pack(released, released.info.get("round"))

    def _read(self, shareable: Shareable) -> Message | SiteFailure:
        try:
            return unpack(FLModelUtils.from_shareable(shareable))
        except Exception as error:
            raise ContentBlockedException(f"not a message of FedSuper ({type(error).__name__})") from None
