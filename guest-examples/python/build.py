"""Builds the agent: `python3 build.py` makes build/NAME.wasm, NAME being the one in agent.toml.

What it needs is installed into .venv, in the versions of requirements.txt.
"""

import hashlib
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")


def main() -> None:
    if sys.version_info < (3, 10):
        sys.exit(f"error: Python 3.10 or newer is needed, and this is {sys.version.split()[0]}")
    install()
    name = re.search(r'^name\s*=\s*"([^"]+)"', (HERE / "agent.toml").read_text(), re.MULTILINE).group(1)
    wit = next(folder for folder in (HERE / "wit", HERE.parent.parent / "wit") if folder.is_dir())
    target = HERE / "build" / f"{name}.wasm"
    target.parent.mkdir(exist_ok=True)
    made = HERE / "build" / f".{name}.wasm"
    run(BIN / "componentize-py", "-d", wit, "-w", "agent", "componentize", "agent", "-p", HERE, "-o", made)
    made.replace(target)
    print(f"{target.relative_to(HERE)} is built")


def install() -> None:
    """Installs what requirements.txt says, unless it is there."""
    wanted = (HERE / "requirements.txt").read_bytes()
    mark = VENV / "installed"
    digest = hashlib.sha256(wanted).hexdigest()
    if mark.exists() and mark.read_text() == digest:
        return
    print("installing what requirements.txt says into .venv", flush=True)
    try:
        venv.create(VENV, with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("error: Python's venv and pip are missing; on Debian and Ubuntu: apt-get install python3-venv")
    run(BIN / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt")
    mark.write_text(digest)


def run(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], cwd=HERE)
    if done.returncode:
        sys.exit(f"error: {Path(str(command[0])).name} ended with code {done.returncode}")


if __name__ == "__main__":
    main()
