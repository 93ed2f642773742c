"""Kernels for nbval that start at once: forks of one process, which has imported what notebooks import.

A kernel of Jupyter's spends seconds on importing torch, minispec and matplotlib.
"""

import os
import signal
import sys
from importlib import import_module
from multiprocessing import get_context
from queue import Empty

WARM = ("torch", "minispec", "minispec.classroom", "minispec.show.plots", "ipykernel.inprocess.blocking")
INLINE = "module://matplotlib_inline.backend_inline"  # what a kernel of Jupyter's draws with


class WarmProcess:
    """The process that kernels are forks of. It has one thread, because threads do not survive a fork."""

    def __init__(self):
        context = get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(target=serve, args=(far,))
        self.process.start()
        far.close()

    def stop(self):
        """Ends the process; no kernel may be running."""
        self.pipe.send(None)
        self.process.join()


class WarmKernel:
    """A kernel as nbval uses it, see `nbval.kernel.RunningKernel`; one at a time of a warm process."""

    def __init__(self, warm, folder):
        self.pipe = warm.pipe
        self.pipe.send(str(folder))
        self.process_id = self.pipe.recv()
        self.messages = []
        self.has_ended = False

    def execute_cell_input(self, source, allow_stdin=None):
        """Hands over a cell; returns the id of its messages."""
        self.pipe.send(source)
        return "cell"

    def await_reply(self, msg_id, timeout=None):
        """Waits until a cell has run; raises `queue.Empty` after so many seconds."""
        if not self.pipe.poll(timeout):
            raise Empty
        received = self.pipe.recv()
        if isinstance(received, int):
            self.has_ended = True
            raise RuntimeError(f"the cell ended its process, with exit status {received}")
        self.messages += received

    def get_message(self, stream, timeout=None):
        """Returns the next message of a cell."""
        if not self.messages:
            self.await_reply("cell", timeout)
        return self.messages.pop(0)

    def await_idle(self, parent_id, timeout):
        """Forgets what is left of a cell's messages: they come all at once."""
        self.messages = []

    def is_alive(self):
        """Whether cells can be run."""
        return not self.has_ended

    def interrupt(self):
        """Raises KeyboardInterrupt in the cell."""
        os.kill(self.process_id, signal.SIGINT)

    def stop(self):
        """Ends the fork, whatever it does."""
        if not self.has_ended:
            os.kill(self.process_id, signal.SIGKILL)
        while not self.has_ended:
            self.has_ended = isinstance(self.pipe.recv(), int)


def serve(pipe):
    """In the warm process: a fork for each folder that is received; its exit status when it has ended."""
    for name in WARM:
        import_module(name)
    import_module("torch").set_num_threads(1)
    while (folder := pipe.recv()) is not None:
        fork = get_context("fork").Process(target=run_cells, args=(pipe, folder))
        fork.start()
        fork.join()
        pipe.send(fork.exitcode)


def run_cells(pipe, folder):
    """In a fork: runs each cell that is received, as a kernel would; sends the messages that it published."""
    import matplotlib
    from ipykernel.inprocess.blocking import BlockingInProcessKernelClient
    from ipykernel.inprocess.manager import InProcessKernelManager

    os.chdir(folder)
    matplotlib.use(INLINE)
    manager = InProcessKernelManager()
    manager.start_kernel()
    client = BlockingInProcessKernelClient(kernel=manager.kernel, session=manager.session)
    client.start_channels()
    sys.stdout, sys.stderr = (
        manager.kernel.stdout,
        manager.kernel.stderr,
    )  # so that each cell's prints are its own
    pipe.send(os.getpid())
    while True:
        sent = client.execute(pipe.recv(), store_history=False, allow_stdin=False, stop_on_error=False)
        pipe.send(list(published(client, sent)))


def published(client, sent):
    """Yields the messages of a cell, as far as nbval reads them, up to the one that says that it is over."""
    idle = False
    while not idle:
        message = client.get_iopub_msg()
        if message["parent_header"].get("msg_id") == sent:
            content = message["content"]
            idle = content.get("execution_state") == "idle"
            yield {
                "msg_type": message["msg_type"],
                "parent_header": {"msg_id": "cell"},
                "content": content,
            }
