"""A small language model: corpus, tokenizer, model, cache, training, checkpoints."""
