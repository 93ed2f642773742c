"""The native backend: the forward and the decisions of the core in C++."""
