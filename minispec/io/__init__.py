"""What goes in and out: checkpoints, tokenizer, traces and recordings, streamed text, stop texts."""
