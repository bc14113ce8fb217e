"""Put FedSuper on the allow-list of a start-up kit: `python allow_fedsuper.py KIT [--store FOLDER]`.

NVFlare loads only listed classes for jobs that carry no code. `KIT/local/resources.json` replaces the provisioned
`resources.json.default` as a whole, so it is written from that file plus FedSuper's entries; running this twice changes
nothing. `--store`, for the server: keep jobs and snapshots in FOLDER instead of a temporary folder.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

CLASSES = ["fedsuper.", "nvflare.app_common.widgets.decomposer_reg.DecomposerRegister"]
TEMPORARY = "/tmp/nvflare"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kit", type=Path, help="the start-up kit: the folder that holds startup/ and local/")
    parser.add_argument("--store", type=Path, help="server only: where jobs and snapshots are kept")
    options = parser.parse_args()
    local = options.kit / "local"
    candidates = [local / "resources.json", local / "resources.json.default"]
    source = next((path for path in candidates if path.exists()), None)
    if source is None:
        parser.error(f"{local}: holds no resources.json and no resources.json.default; give a provisioned start-up kit")
    text = source.read_text(encoding="utf-8")
    if options.store:
        text = text.replace(TEMPORARY, str(options.store.absolute()))
    resources = json.loads(text)
    listed = resources.setdefault("class_allow_list", [])
    listed += [entry for entry in CLASSES if entry not in listed]
    (local / "resources.json").write_text(json.dumps(resources, indent=2) + "\n", encoding="utf-8")
    print(local / "resources.json")


if __name__ == "__main__":
    main()
