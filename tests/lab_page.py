"""A real JupyterLab in a headless browser: start it, run a notebook in it, write into its cells."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

# All cells stay in the page, also those out of sight; and nobody is asked about news.
SETTINGS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none", "autoStartDefaultKernel": True},
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
# The prompts of all code cells whose source is shown: a folded one has a prompt without a number.
PROMPTS = """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')]
    .filter(cell => !cell.querySelector('.jp-InputPlaceholder'))
    .map(cell => cell.querySelector('.jp-InputPrompt').textContent.trim())"""
ERRORS = "[data-mime-type='application/vnd.jupyter.error'], [data-mime-type='application/vnd.jupyter.stderr']"


@contextmanager
def jupyterlab(folder, scratch):
    """Runs JupyterLab on a folder, on loopback only; gives its address.

    Args:
        folder: with the notebooks.
        scratch: an empty folder for its settings and whatever else it writes.
    """
    for name, settings in SETTINGS.items():
        path = scratch / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings))
    places = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces"}
    places |= {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    options = f"--no-browser --allow-root --ip=127.0.0.1 --port={port} --ServerApp.port_retries=0".split()
    with open(scratch / "log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options, "--IdentityProvider.token="],
            cwd=folder,
            env=os.environ | {variable: str(scratch / place) for variable, place in places.items()},
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(f"{address}/api/status", server, scratch / "log")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=30)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(address, server, log, seconds=60):
    """Waits until a server answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{Path(log).read_text(encoding='utf-8')[-2000:]}")


@contextmanager
def opened(browser, address, name):
    """Opens a notebook in a page of its own; afterwards its kernel is shut down."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.goto(f"{address}/lab/tree/{name}?reset")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']", timeout=60_000)
    settle(page, address)
    try:
        yield page
    finally:
        sessions = page.request.get(f"{address}/api/sessions").json()
        cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
        for session in sessions:
            headers = {"X-XSRFToken": cookies.get("_xsrf", "")}
            page.request.delete(f"{address}/api/sessions/{session['id']}", headers=headers)
        page.close()


def settle(page, address, seconds=60):
    """Waits until the page keeps its kernel: sometimes it starts one, drops it, and starts another.

    What is run in between is lost without a word.
    """
    end = time.monotonic() + seconds
    kept = None
    while time.monotonic() < end:
        kernels = [session["kernel"] for session in page.request.get(f"{address}/api/sessions").json()]
        ready = [k["id"] for k in kernels if k["connections"] == 1 and k["execution_state"] == "idle"]
        if ready and ready == kept and len(kernels) == 1:
            return
        kept = ready
        page.wait_for_timeout(1000)
    raise AssertionError(f"the page has no kernel that stays: {kernels}")


def run_all(page, seconds=300):
    """Runs all cells from the menu and waits until each has a new number; returns how many there are."""
    before = max((number_of(prompt) for prompt in page.evaluate(PROMPTS)), default=0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        prompts = page.evaluate(PROMPTS)
        if prompts and all(number_of(prompt) > before for prompt in prompts):
            return len(prompts)
        if not any("*" in prompt or number_of(prompt) > before for prompt in prompts):
            click_run_all(page)  # again, if the page was not ready to hear it
        page.wait_for_timeout(500)
    raise AssertionError(f"not all cells ran within {seconds} s: {page.evaluate(PROMPTS)}, {errors(page)}")


def click_run_all(page):
    page.keyboard.press("Escape")
    page.locator(".lm-MenuBar-item", has_text="Run").first.click()
    page.locator(".lm-Menu-item[data-command='runmenu:run-all']").click()
    page.wait_for_timeout(1500)


def number_of(prompt):
    """Returns the number in a prompt such as [3]:, or 0."""
    digits = prompt.strip("[]:* ")
    return int(digits) if digits.isdigit() else 0


def errors(page):
    """Returns the texts of all outputs that are errors or stand on standard error."""
    return page.locator(ERRORS).all_inner_texts()


def cell_with(page, text):
    """Returns the one code cell whose source contains a text."""
    cells = page.locator(".jp-Notebook .jp-CodeCell", has=page.locator(".cm-content", has_text=text))
    assert cells.count() == 1, f"{cells.count()} cells contain {text!r}"
    return cells


def edit_cell(page, text, new_source, seconds=60):
    """Replaces the source of the code cell that contains a text, runs it, and returns the cell."""
    cell = cell_with(page, text)
    index = page.locator(".jp-Notebook .jp-CodeCell").evaluate_all(
        "(cells, one) => cells.indexOf(one)", cell.element_handle()
    )
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(index)  # its text is about to change
    before = cell.locator(".jp-InputPrompt").inner_text()
    cell.locator(".cm-content").fill(new_source)
    cell.locator(".cm-content").press("Control+Enter")
    page.wait_for_function(
        "([index, before]) => { const prompt = "
        "document.querySelectorAll('.jp-Notebook .jp-CodeCell')[index]"
        ".querySelector('.jp-InputPrompt').textContent.trim(); "
        "return prompt !== before.trim() && /^\\[\\d+\\]:$/.test(prompt) }",
        arg=[index, before],
        timeout=1000 * seconds,
    )
    return cell
