"""`minispec generate --requests`: each text is that of its prompt alone, and comes as soon as it ends."""

import json

import pytest
from native_models import has_compiler

from minispec import SeededRng, Warp, load_pair, speculate, verify_greedy
from minispec.cli.requests import print_ended
from minispec.core.batch import Request
from minispec.drafters.registry import DRAFTERS

BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]
PROMPTS = [
    "The cat sat",
    "The dog",
    "Once there were two friends",
    "A hen",
    "The cat and the cat and the cat",
]
CAPS = [9, 3, 30, 1, 14]
REQUESTS = [{"prompt": item, "max_new_tokens": cap} for item, cap in zip(PROMPTS, CAPS, strict=True)]
GREEDY = "--temperature 0 --dtype float64 --ignore-eos"
SHIPPED = [name for name in DRAFTERS if "eagle3" not in name]  # what the shipped pair has all parts of


@pytest.fixture
def answers(command, tmp_path):
    """Decodes requests; returns what each line says, in their order."""

    def run(line, requests=REQUESTS, folder="stories"):
        path = tmp_path / "requests.jsonl"
        path.write_text("\n".join(map(json.dumps, requests)), encoding="utf-8")
        out, err = command(f"generate {line}", "--pair", folder, "--requests", path)
        assert err.startswith("exact mode" * ("--exact" in line))
        return [json.loads(answer) for answer in out.splitlines()]

    return run


@pytest.mark.parametrize("batch_size", [1, 2, 9])
@pytest.mark.parametrize(
    "line",
    [
        *(f"--backend {backend}" for backend in BACKENDS),
        f"--backend {BACKENDS[-1]} --drafter suffix --verifier greedy",
        "--drafter tree",
        "--verifier block --k 6",
        "--target-only",
    ],
)
def test_each_text_is_that_of_its_prompt_alone(generate, answers, pair, line, batch_size):
    """At temperature 0, whatever row decodes it, and whatever its neighbours are; so are its target calls."""
    decoded = answers(f"{line} {GREEDY} --batch-size {batch_size}", folder=pair)
    assert sorted(answer["prompt_id"] for answer in decoded) == [0, 1, 2, 3, 4]
    for answer in decoded:
        prompt_id = answer["prompt_id"]
        more = f"--max-new-tokens {CAPS[prompt_id]}"
        alone = generate(f"{line} {GREEDY} {more}", prompt=PROMPTS[prompt_id])
        keys = ("text", "tokens", "finish", "target_calls")
        assert answer == {"prompt_id": prompt_id} | {key: alone[key] for key in keys}


def test_every_drafter_decodes_them(answers):
    """Those that were trained, too, and exact mode: the target's texts, in fewer calls."""
    alone, *others = (
        sorted(answers(f"{GREEDY} {more} --batch-size 2"), key=lambda answer: answer["prompt_id"])
        for more in ("--target-only", "--exact", *(f"--drafter {name}" for name in SHIPPED))
    )
    assert len(others) == 1 + len(SHIPPED)
    for decoded in others:
        assert [item["tokens"] for item in decoded] == [item["tokens"] for item in alone]
        assert sum(item["target_calls"] for item in decoded) < sum(item["target_calls"] for item in alone)


def test_a_line_is_written_before_the_next_round(pair, capsys):
    """What has no budget comes first."""
    models = load_pair(pair)
    requests = [Request([5, 6], 4), Request([7], 2), Request([8], 0)]
    written = []

    def watched():
        settings = {"k": 0, "verifier": verify_greedy, "warp": Warp(0), "rng": SeededRng(0)}
        for r in speculate(models.target, None, requests, **settings):
            written.append(capsys.readouterr().out)
            yield r

    print_ended(watched(), requests, models.tokenizer, 96)
    written.append(capsys.readouterr().out)
    ids = [[json.loads(line)["prompt_id"] for line in lines.splitlines()] for lines in written]
    assert ids == [[2], [], [1], [], [0]]


def test_caps_and_ends_are_those_of_each_request(generate, answers, pair):
    """The command's where a request has none; ids that end it, end-of-text, or nothing."""
    tokens = generate(f"{GREEDY} --max-new-tokens 12")["tokens"]
    last = next(i for i, token in enumerate(tokens) if i > 2 and token not in tokens[:i])
    prompt = {"prompt": "The cat sat"}
    requests = [
        prompt | more for more in ({}, {"eos": [tokens[last], 7]}, {"eos": []}, {"max_new_tokens": 99})
    ]
    line = "--temperature 0 --dtype float64 --k 3 --max-new-tokens 12"
    decoded = {answer["prompt_id"]: answer for answer in answers(line, requests, folder=pair)}
    whole = [decoded[prompt_id]["tokens"] for prompt_id in range(4)]
    assert whole[0] == whole[2] == tokens == whole[3][:12] and whole[1] == tokens[: last + 1]
    assert [decoded[prompt_id]["finish"] for prompt_id in range(4)] == ["cap", "eos", "cap", "context"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "JSON"),
        ("[" * 100_000, "JSON"),
        ('["a"]', "object"),
        *((line, "prompt") for line in ("{}", '{"prompt": 3}', '{"prompt": ""}')),
        ('{"prompt": "\\ud800"}', "surrogates"),
        (json.dumps({"prompt": "The cat " * 200}), "context"),
        ('{"prompt": "a", "max_tokens": 3}', "max_tokens"),
        *((f'{{"prompt": "a", "max_new_tokens": {cap}}}', "max_new_tokens") for cap in ("-1", "true", "2.0")),
        *((f'{{"prompt": "a", "eos": {ends}}}', "eos") for ends in ("3", "[300]", "[true]")),
    ],
)
def test_a_bad_line_is_named_before_anything_is_decoded(refused, pair, tmp_path, line, named):
    """By its number, blank lines counted; nothing stands on standard output."""
    path = tmp_path / "requests.jsonl"
    path.write_text(f'{{"prompt": "The cat"}}\n\n{line}\n', encoding="utf-8")
    message = refused("generate", "--pair", pair, "--requests", path)
    assert message.startswith("minispec: line 3: ") and named in message
