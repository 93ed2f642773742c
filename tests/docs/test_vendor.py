"""What comes from npm is taken only as it was looked at; whatever goes wrong is said in one line."""

import hashlib
import io
import sys
import tarfile

import pytest
import vendor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the fake npm is a shell script")
GOOD = b"as it was looked at"


def fake_npm(folder, content):
    """Writes an npm whose only package holds `content`; None: it fails as npm does without a network."""
    packed = folder / "packed.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        for name, text in {"package/lib/x.js": content or b"", "package/LICENSE": b"free"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    fails = 'echo "npm warn slow" >&2; echo "npm error code ENOTFOUND" >&2; exit 1'
    npm = folder / "npm"
    npm.write_text("#!/bin/sh\n" + (fails if content is None else f'cp "{packed}" "$4/x-1.0.0.tgz"') + "\n")
    npm.chmod(0o755)
    return str(npm)


@pytest.fixture
def wanted(tmp_path):
    return vendor.Vendored(
        "x", "1.0.0", "lib/x.js", hashlib.sha256(GOOD).hexdigest(), tmp_path / "kept" / "x.js"
    )


def test_a_file_is_fetched_once_with_its_licence(wanted, tmp_path):
    assert vendor.fetch(wanted, fake_npm(tmp_path, GOOD)).read_bytes() == GOOD
    assert (wanted.path.parent / "LICENSE").read_bytes() == b"free"
    assert vendor.fetch(wanted, "no-such-npm") == wanted.path  # it is there already


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"something else", "not the one that was looked at"), (None, "npm error code ENOTFOUND")],
)
def test_what_goes_wrong_is_said_in_a_line_and_nothing_is_kept(wanted, tmp_path, content, why):
    with pytest.raises(RuntimeError, match=why) as said:
        vendor.fetch(wanted, fake_npm(tmp_path, content))
    assert "\n" not in str(said.value) and "x 1.0.0" in str(said.value)
    assert not wanted.path.exists()


def test_without_npm_it_says_what_to_install(wanted):
    with pytest.raises(RuntimeError, match=r"x 1\.0\.0 comes from npm.*install Node\.js"):
        vendor.fetch(wanted, "no-such-npm")


def test_a_file_that_was_changed_is_fetched_again(wanted, tmp_path):
    wanted.path.parent.mkdir()
    wanted.path.write_bytes(b"changed")
    assert vendor.fetch(wanted, fake_npm(tmp_path, GOOD)).read_bytes() == GOOD
