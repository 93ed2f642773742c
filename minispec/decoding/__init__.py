"""The method, a file per phase: warp, prefill, draft, verify, rollback, and the loop."""
