"""What people look at: text and figures. They read traces, never models."""
