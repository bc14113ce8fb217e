"""What a site streams arrives in a real MLflow store, through NVFlare's receiver (where MLflow is installed)."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest
from nvflare.apis.analytix import AnalyticsDataType, LogWriterName
from nvflare.apis.fl_constant import ProcessType
from nvflare.app_common.widgets.streaming import create_analytic_dxo

from fedsuper.config.reading import parse_study
from fedsuper.engines.flare.recipe import tracking_receiver


def server_context(folder: Path, sites: list[str]) -> MagicMock:
    """NVFlare's context of a server's job process, as far as a receiver asks it."""
    context = MagicMock()
    context.get_process_type.return_value = ProcessType.SERVER_JOB
    context.get_job_id.return_value = "job-1"
    context.get_engine.return_value.get_workspace.return_value.get_run_dir.return_value = str(folder)
    clients = []
    for name in sites:
        client = MagicMock()
        client.name = name
        clients.append(client)
    context.get_engine.return_value.get_clients.return_value = clients
    context.get_prop.return_value = context.get_peer_context.return_value = None
    return context


def test_metrics_reach_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client_class = pytest.importorskip("mlflow.tracking", reason="pip install 'fedsuper[mlflow]'").MlflowClient
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "store").as_uri()
    study = parse_study({"method": "fedavg", "tracking": {"to": "mlflow", "uri": uri, "project": "eyes"}})
    receiver = tracking_receiver(study.tracking, study.method)
    assert receiver is not None
    context = server_context(tmp_path, ["site-1", "site-2"])
    receiver.initialize(context)
    for site in ("site-1", "site-2"):
        for number in (1, 2):
            sent = create_analytic_dxo(
                "val/global", 0.1 * number, AnalyticsDataType.SCALAR, global_step=number, writer=LogWriterName.TORCH_TB
            )
            receiver.save(context, sent.to_shareable(), site)
    receiver.finalize(context)
    store = client_class(uri)
    experiment = store.get_experiment_by_name("eyes")
    runs = store.search_runs([experiment.experiment_id])
    assert len(runs) == 2
    for run in runs:
        history = store.get_metric_history(run.info.run_id, "val/global")
        assert [(one.step, one.value) for one in history] == [(1, 0.1), (2, 0.2)]
