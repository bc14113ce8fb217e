"""A federation as production has it, on this machine: certificates, policies without code, a folder for everyone."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import yaml

from fedsuper.data.synthetic.retina import write_retina
from fedsuper.engines.flare.launch.link import Link
from fedsuper.engines.flare.launch.poc import _free_ports
from fedsuper.engines.flare.launch.processes import ProcessFamily
from fedsuper.engines.flare.launch.session import Following
from fedsuper.engines.flare.policy import allow_classes, restrict_rights

SERVER, LEAD = "localhost", "lead@fedsuper.org"
PROJECT = Path(__file__).parents[2] / "poc_config" / "project.yml"


def wait(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Until something holds; an assertion where it does not in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(0.2)


class Provisioned:
    """The kits, machines and processes of one federation; `sites` each have data, state and outbox of their own."""

    def __init__(self, out: Path, sites: tuple[str, ...], images: int) -> None:
        self.out = out.absolute()
        self.sites = sites
        self.images = images
        self.kits = self.out / "provisioned" / "fedsuper" / "prod_00"
        self.lead = self.kits / LEAD
        self.family = ProcessFamily()
        self._link: Link | None = None

    def machine(self, name: str) -> Path:
        """What a participant owns: `state`, and a site also `data` and `outbox`."""
        return self.out / "machines" / name

    def data_root(self, site: str) -> Path:
        """What a site names as its data root."""
        return self.machine(site) / "data"

    def provision(self) -> None:
        """Certificates, policies without code, and a site file for everyone."""
        fed_learn, admin = _free_ports(2)
        source = yaml.safe_load(PROJECT.read_text())
        clients = [{"name": site, "type": "client", "org": site.replace("-", "_")} for site in self.sites]
        source["participants"] = [
            {"name": SERVER, "type": "server", "org": "consortium", "fed_learn_port": fed_learn, "admin_port": admin},
            *clients,
            {"name": "admin@fedsuper.org", "type": "admin", "org": "consortium", "role": "project_admin"},
            {"name": LEAD, "type": "admin", "org": "consortium", "role": "lead"},
        ]
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "project.yml").write_text(yaml.safe_dump(source, sort_keys=False))
        self.call("nvflare.cli", "provision", "-p", str(self.out / "project.yml"), "-w", str(self.out / "provisioned"))
        write_retina(self.out / "all", sites=len(self.sites), images=self.images, size=48, seed=0, difficulty="easy")
        for name in (SERVER, *self.sites):
            kit = self.kits / name
            allow_classes(kit, self.out / "store")
            restrict_rights(kit)
            # A handful of made-up patients: their figures are no secret, as in the in-process run this is held to.
            known: dict[str, object] = {"state_folder": str(self.machine(name) / "state"), "minimum": 1}
            if name != SERVER:
                data = self.data_root(name)
                data.mkdir(parents=True)
                shutil.copy(self.out / "all" / "dataset.json", data)
                shutil.copytree(self.out / "all" / name, data / name)
                known |= {"data_root": str(data), "outbox": str(self.machine(name) / "outbox")}
            (kit / "local" / "fedsuper.yaml").write_text(yaml.safe_dump(known))

    def start(self, *names: str) -> None:
        """Start machines as their owners do, and wait until their sites are connected."""
        for name in names:
            subprocess.run(["bash", str(self.kits / name / "startup" / "start.sh")], env=self.environment(), check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        expected = {name for name in names if name != SERVER}
        wait(lambda: expected <= self.connected(), 240, f"{', '.join(expected)} connected")

    def connected(self) -> set[str]:
        """The sites that the server hears of now."""
        try:
            self._link = self._link or Link(self.lead, lambda text: None)
            return Following(self._link, "").connected()
        except Exception:  # the server is not there yet
            return set()

    def close(self) -> None:
        """End the session by which it was asked who is connected."""
        if self._link is not None:
            self._link.close()
            self._link = None

    # --- processes ---------------------------------------------------------------------------------------------------

    def processes(self, name: str, *words: str) -> list[psutil.Process]:
        """A machine's processes whose command line holds all of `words`."""
        places = (str(self.kits / name), str(self.machine(name)))
        found = []
        for process in self.family.members():
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())
                if any(place in command for place in places) and all(word in command for word in words):
                    found.append(process)
        return found

    def process(self, name: str, word: str) -> psutil.Process:
        """The one Python process of a machine that runs `word`."""
        found = [each for each in self.processes(name, word) if "python" in Path(each.cmdline()[0]).name]
        assert found, f"{name}: no process runs {word}"
        return found[0]

    def trainer(self, site: str) -> psutil.Process:
        """The child in which a site trains."""
        return self.process(site, "site_process")

    def job(self, name: str) -> psutil.Process:
        """A machine's process for the running job."""
        return self.process(name, "runner_process" if name == SERVER else "worker_process")

    def server(self) -> psutil.Process:
        """The server itself."""
        return self.process(SERVER, "server_train")

    def kill_machine(self, name: str) -> None:
        """The power goes: start scripts first, so that nothing brings the rest back."""
        members = self.processes(name)
        for process in sorted(members, key=lambda each: "start" not in " ".join(each.cmdline())):
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(members, timeout=10)
        for name in ("pid.fl", "daemon_pid.fl", "shutdown.fl", "restart.fl"):
            for path in self.kits.glob(f"*/{name}"):
                if not any(each.is_running() for each in self.processes(path.parent.name)):
                    path.unlink(missing_ok=True)

    def freeze(self, name: str) -> Callable[[], None]:
        """Stop all of a machine's processes; what lets them go on."""
        members = self.processes(name)
        for process in members:
            process.suspend()

        def thaw() -> None:
            for process in members:
                with contextlib.suppress(psutil.Error):
                    process.resume()

        return thaw

    # --- commands ----------------------------------------------------------------------------------------------------

    def command(self, *arguments: str) -> list[str]:
        """`fedsuper ... --engine prod` in the lead's name."""
        return [sys.executable, "-m", "fedsuper.cli", *arguments, "--engine", "prod", "--kit", str(self.lead)]

    def call(self, module: str, *arguments: str) -> str:
        """A Python module's command, which must end well; what it printed."""
        done = subprocess.run([sys.executable, "-m", module, *arguments], env=self.environment(), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=1200)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    def environment(self) -> dict[str, str]:
        """A start-up kit starts the first `python3` of the path; here it is the one that runs this."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return self.family.environment({"HOME": str(self.out), "OMP_NUM_THREADS": "1", "PATH": path})


def interrupted(process: subprocess.Popen[str]) -> None:
    """Ctrl-C."""
    process.send_signal(signal.SIGINT)
