"""Presets: the recipes that come with minispec, and why they are what they are."""

from __future__ import annotations

from minispec.train.recipes import CurriculumStage, Recipe, gpt

# The pair that is shipped. Eight layers make the target many times as dear to call as its one-layer draft,
# and so narrow a model reads six tokens nearly as fast as one. The target learns whose fact is whose from
# roll calls, one kind of fact after the other, and only then from stories.
STORIES = Recipe(
    name="stories",
    corpus="stories",
    seed=0,
    tokenizer="bpe",
    target=gpt(layers=8, width=128, heads=8, kv_heads=4, ffn=352, vocab_size=512),
    draft=gpt(layers=1, width=32, heads=2, kv_heads=1, ffn=64, vocab_size=512),
    target_stages=(
        CurriculumStage(steps=100, rows=32, window=64, friends=1),
        CurriculumStage(steps=250, rows=16, window=128, friends=2, mix=(("animal", 1),)),
        CurriculumStage(steps=200, rows=16, window=128, friends=2, mix=(("animal", 0.5), ("thing", 1))),
        CurriculumStage(
            steps=200, rows=16, window=128, friends=2, mix=(("animal", 0.3), ("thing", 0.5), ("place", 1))
        ),
        CurriculumStage(
            steps=250,
            rows=16,
            window=128,
            friends=2,
            mix=(
                ("animal", 0.3),
                ("thing", 0.3),
                ("place", 0.3),
                ("seat", 0.5),
                ("animal's seat", 0.5),
            ),
        ),
        CurriculumStage(
            steps=900,
            rows=16,
            window=128,
            friends=2,
            mix=(
                ("story", 1),
                ("animal", 0.1),
                ("thing", 0.15),
                ("place", 0.2),
                ("seat", 0.15),
                ("animal's seat", 0.15),
            ),
        ),
        CurriculumStage(steps=400, rows=8, window=256, friends=2),
    ),
    draft_stages=(
        CurriculumStage(steps=200, rows=32, window=64, friends=1),
        CurriculumStage(steps=2400, rows=8, window=256, friends=2),
    ),
    distill_stages=(CurriculumStage(steps=1200, rows=8, window=256, friends=2),),
    stories=30_000,
    friends=2,
)

# Trained live in the demo: stories with two friends, which a small target learns to tell apart in a minute.
QUICK = Recipe(
    name="quick",
    corpus="stories",
    seed=0,
    tokenizer="bpe",
    target=gpt(layers=4, width=128, heads=8, kv_heads=4, ffn=352, vocab_size=512),
    draft=gpt(layers=1, width=64, heads=2, kv_heads=1, ffn=176, vocab_size=512),
    target_stages=(
        CurriculumStage(steps=150, rows=32, window=64, friends=1),
        CurriculumStage(steps=500, rows=16, window=128, friends=2),
    ),
    draft_stages=(CurriculumStage(steps=300, rows=16, window=128, friends=2),),
    distill_stages=(CurriculumStage(steps=150, rows=16, window=128, friends=2),),
    stories=6_000,
    friends=2,
)

# Its target's weights take 40 MB, more than the caches of most processors hold. So they come from memory for
# every forward, and while they come there is time to check several tokens.
ENGLISH = Recipe(
    name="english",
    corpus="english",
    seed=0,
    tokenizer="bpe",
    target=gpt(layers=6, width=384, heads=6, kv_heads=3, ffn=1024, vocab_size=1024),
    draft=gpt(layers=1, width=128, heads=4, kv_heads=2, ffn=352, vocab_size=1024),
    target_stages=(CurriculumStage(steps=340, rows=8, window=256),),
    draft_stages=(CurriculumStage(steps=700, rows=8, window=256),),
    distill_stages=(CurriculumStage(steps=400, rows=8, window=256),),
)

# A short story that says where the cat slept, and ends where one must remember it.
WALKTHROUGHS = {
    "stories": "Once there were two friends. "
    "Rue the cat had a kite. She lived by the hill and slept on the floor. "
    "Pip the cow had a bell. She lived by the wood and slept on the mat. The cat",
}

PRESETS = {recipe.name: recipe for recipe in (QUICK, STORIES, ENGLISH)}
