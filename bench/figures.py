"""Draw the figures of README and the documentation again: `python bench/figures.py [NAME ...]`, all without a name.

Each figure below bench/figures is drawn by the command that a page gives for it, so that a reader who runs the command
sees the same. Not here: h200.png (`bench/hardware/predict.py`), lost_update.png (`bench/lost_update.py`), and
lulesh_recorded.png and report_jacobi.png, which are pictures of a browser.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FIGURES = Path(__file__).parent / "figures"
COMMANDS = {
    "exahype": "sweep exahype threads=1,2,4,8,16,32,64,128 memory=map,pool",
    "exahype_fig1": "sweep exahype_fig1",
    "exahype_fig2": "sweep exahype_fig2",
    "exahype_fig3": "sweep exahype_fig3",
    "exahype_fig4": "sweep exahype_fig4 threads=1,4,16,64 batch=1,8,32 patches=2048",
    "jacc_gpus": "sweep jacc_gpus benchmark=BT,CG,EP,SP,Himeno",
    "jacc_himeno": "sweep jacc_himeno",
    "jacc_pools": "sweep jacc_pools",
    "jacc_strategies": "sweep jacc_strategies",
    "otm_fig1": "sweep otm_fig1",
    "otm_fig2": "sweep otm_fig2",
    "otm_fig3": "sweep otm_fig3",
    "stdpar_babelstream": "sweep stdpar_babelstream --machine isambard-mi100",
    "stdpar_lulesh": "sweep stdpar_lulesh",
    "zerocopy_fig3": "sweep zerocopy_fig3",
    "zerocopy_fig4": "sweep zerocopy_fig4",
    "zerocopy_table2": "sweep zerocopy_table2",
}


def draw(name: str) -> None:
    """Run the sweep of one figure with two workers, and store what it draws."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "offloadrt", *COMMANDS[name].split(), "--jobs", "2", "--out", folder]
        subprocess.run(command, check=True)
        shutil.copyfile(Path(folder) / "figure.png", FIGURES / f"{name}.png")


def main() -> None:
    """Draw the figures that the command line names."""
    unknown = [name for name in sys.argv[1:] if name not in COMMANDS]
    if unknown:
        sys.exit(f"no figure {', '.join(unknown)}; there are {', '.join(COMMANDS)}")
    for name in sys.argv[1:] or COMMANDS:
        draw(name)


if __name__ == "__main__":
    main()
