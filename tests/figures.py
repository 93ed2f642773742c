"""What the tests of figures share: traces made by hand and by models."""

import torch
from tiny import gpt_pair

import minispec
from minispec.core.records import Draft, Verdict
from minispec.io.recording import LoggingRng, record_run
from minispec.io.trace import CacheLengths, ObservedRound, Trace

TARGET, DRAFT = gpt_pair()
WORDS = [" a", " bb", ".", " the", "\n", " six", " h", " i", " j", " k", "⏹"]


def by_hand(prompt, *plays, draft_cache=True, ids=11):
    """Returns a trace of one row from plays (drafted ids, accepted, next id, and how many are emitted).

    The last may be left out: then all are. Distributions are uniform over so many ids.
    """
    rounds = []
    length = len(prompt)
    pending = prompt[-1]
    for index, (drafted, accepted, token, *cut) in enumerate(plays):
        k = len(drafted)
        emitted = [*drafted[:accepted], token][: cut[0] if cut else None]
        before = length - 1
        after = before + len(emitted)
        lengths = CacheLengths((before,), (before + 1 + k,), (after,))
        drafter = CacheLengths((before,), (before + k,), (after,)) if draft_cache else None
        dists = torch.full((1, k + 1, ids), 1 / ids)
        draft = Draft(torch.tensor([drafted], dtype=torch.long).view(1, -1), dists[:, :k])
        verdict = Verdict(torch.tensor([accepted]), torch.tensor([token]))
        rounds.append(
            ObservedRound(
                index=index,
                prompt_ids=(0,),
                pending=torch.tensor([pending]),
                draft=draft,
                target_hidden=torch.zeros(1, k + 1, 0),
                target_probs=dists,
                target_logits=dists.log(),
                verdict=verdict,
                emitted=(tuple(emitted),),
                stops_at_first_rejection=True,
                live=(True,),
                finish=(None,),
                lengths=(after,),
                target_cache=lengths,
                draft_cache=drafter,
                seconds={"draft": 0.001 * k, "verify": 0.004},
            )
        )
        length += len(emitted)
        pending = emitted[-1]
    return Trace((tuple(prompt),), {}, tuple(rounds))


def tiny_recording(prompts=((3, 1, 4),), drafter=None, **settings):
    """Returns the recording of a run of tiny models, with rejection at temperature 1 by default."""
    settings = {"k": 3, "verifier": minispec.verify_rejection, "max_new_tokens": 24} | settings
    settings = {"warp": minispec.Warp(), "rng": LoggingRng(0)} | settings
    return record_run(TARGET, drafter or minispec.ModelDrafter(DRAFT), prompts, WORDS, **settings)


def tiny_run(*what, **settings):
    """Returns the trace of the same."""
    return tiny_recording(*what, **settings).trace
