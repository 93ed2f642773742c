"""Grading a folder of submissions, each in a process of its own. The worker imports this: no answers here."""

WARNING = "This runs what people have handed in. Run it in a container or on a machine you trust them with."
NOT_STOPPED = (  # what a submission can do all the same; docs/teaching/grading.md lists it
    "read what your account can read, the other submissions included",
    "write and delete what your account may write and delete",
    "use the network",
    "start processes, which live on if they leave its process group (on Windows in any case)",
    "take more memory than the limit, on macOS and Windows",
    "look into minispec's own files, where the right answers are",
)
