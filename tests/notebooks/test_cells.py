"""Every cell of every notebook runs, and those tagged nbval-check-output say what they said.

nbval runs and compares; the kernels are forks of one process. In kernels of Jupyter's, `make test` runs the
two notebooks of pytest's `testpaths`, and `make evidence` all notebooks and solutions.
"""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbval.plugin import IPyNbFile, NbCellError
from notebook_rules import FOLDER, is_solution, notebook_of, texts
from warm_kernels import WarmKernel, WarmProcess

NOTEBOOKS = [notebook_of(text) for text in texts() if not is_solution(text)]
CHECKED = {"tags": ["nbval-check-output"]}


@pytest.fixture(scope="session")
def warm():
    """The process that has imported what notebooks import."""
    process = WarmProcess()
    yield process
    process.stop()


@pytest.fixture
def run_notebook(request, warm):
    """Runs the code cells of a notebook as nbval does; fails with what it says of the first that is wrong."""
    kernel = WarmKernel(warm, FOLDER)

    def run(path):
        file = IPyNbFile.from_parent(request.session, path=path)
        file.kernel = kernel
        file.setup_sanitize_files()
        for cell in file.collect():
            run_cell(cell)

    yield run
    kernel.stop()


def run_cell(cell):
    """Runs a cell; if it raises or its output differs, the test fails with notebook, cell and traceback."""
    try:
        cell.runtest()
    except (NbCellError, RuntimeError):
        said = cell.repr_failure(pytest.ExceptionInfo.from_current())
        pytest.fail(f"{cell.path.name}, {cell.name}: {said}", pytrace=False)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_and_say_what_they_said(path, run_notebook):
    """From the first cell to the last, in the folder of notebooks."""
    run_notebook(path)


def code(source, said=None, **metadata):
    """Returns a cell that has run, with what it printed."""
    outputs = [new_output("stream", name="stdout", text=said)] if said else []
    return new_code_cell(source, execution_count=1, outputs=outputs, metadata=metadata)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (code("print(x + 2)", "4\n", **CHECKED), "3"),
        (code("x", "1\n", **CHECKED), "stdout"),
        (code("raise ValueError('no')"), "ValueError"),
        (code("import os; os._exit(3)"), "exit status 3"),
    ],
    ids=["another-value", "another-kind", "raises", "ends"],
)
def test_a_planted_fault_is_found(wrong, words, tmp_path, run_notebook):
    """The failure says where, and what was wrong; seconds may differ, and so may cells without the tag."""
    right = [
        code("%precision 2\nx = 1\nprint(x)", "7\n"),
        code("print(x, 5.25, 's')", "1 5.25 s\n", **CHECKED),
    ]
    right.append(code("print('took 1.2 s')", "took 3.4 s\n", **CHECKED))
    nbformat.write(new_notebook(cells=[*right, wrong]), tmp_path / "07_faults.ipynb")
    with pytest.raises(pytest.fail.Exception, match="07_faults.ipynb, Cell 3: ") as failure:
        run_notebook(tmp_path / "07_faults.ipynb")
    assert words in str(failure.value)
