"""One example of every figure, from data that need no trained model: what holds for these holds for all.

Numbers are those that were measured and come with the package.
"""

from book.bench_plots import every_prediction, matrix, seven_billion, speeds_of, tokens_per_second
from book.handouts import numbers_drawn
from book.reports import saved_reports

from minispec.core.draft import ModelDrafter
from minispec.core.loop import speculate
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.drafters.suffix import SuffixAutomaton
from minispec.drafters.tree import grow
from minispec.evidence.bench.measurements import saved
from minispec.evidence.proof.first_token import first_token, first_token_counts
from minispec.evidence.proof.models import table_pair
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.checkpoint import SHIPPED
from minispec.io.files import read_json
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots import caches, distributions, drafts, masks, speed, timeline, verification
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.learning import learning
from minispec.show.plots.overlap import overlap
from minispec.train.publish import history_of
from minispec.verifiers.coupled import verify_coupled

P = (3 / 6, 2 / 6, 1 / 6)  # over the tokens a, b, c
Q = (1 / 6, 1 / 6, 4 / 6)
SAMPLES = 20_000
RATES = {"a sure draft": (0.9, 0.03, 0.02), "a draft in doubt": (0.4, 0.25, 0.15)}


def gallery():
    """Yields every figure once: first those that read a trace, then those of numbers, then the bench."""
    yield from of_traces()
    yield from of_numbers()
    (report,) = saved_reports(["stories"])
    yield tokens_per_second(speeds_of(report))
    yield every_prediction(report["sections"]["prediction"]["compared"]["rows"])


def of_traces():
    """Yields every figure of the decoding itself once."""
    recording = load_walkthrough("rejection")
    trace = recording.trace
    words = recording.words
    without, cached = (make(10, 12) for make in (caches.steps_without_cache, caches.steps_with_cache))
    yield caches.recomputation(without, cached, guess=80)
    yield timeline.timeline(trace, words)
    r = next(r for r in trace.rounds if 0 < r.accepted(0) < r.drafted(0))
    yield drafts.draft_bars(r, words)
    block = [int(r.pending[0]), *r.draft.tokens[0].tolist()]
    yield masks.attention_mask(r.target_cache.before[0], r.drafted(0), [words[token] for token in block])
    yield verification.verification_strip(r, words, drawn=numbers_drawn(recording, r.index))
    i = r.accepted(0)
    yield overlap(r.target_probs[0, i], r.draft.probs[0, i], words, int(r.draft.tokens[0, i]))
    yield caches.cache_grid(trace, words, r.index)
    yield coloured_text(trace, words)
    yield verification.along_the_text(verification.positions_of(trace, words))
    yield drafts.draft_growth(found_in(load_walkthrough("greedy"), 8)[52:67], 8)
    yield masks.tree_mask([0, 0, 1, 2, 3, 4], ["the", "mat", "floor", ".", ".", "Pip", "Pip"], first=46)
    yield masks.tree_shapes({name: grow([rates] * 6, 16)[0] for name, rates in RATES.items()})
    prompts = [[0] * (11 * i % 17 + 1) for i in range(8)]
    turns = [*slots_of(prompts[:4]), *slots_of(prompts[4:], first=4)]
    yield timeline.row_slots({"without refill": turns, "with refill": slots_of(prompts)})


def found_in(recording, k):
    """Returns what a suffix look-up finds after each token of a run's first row, of up to k tokens."""
    text = recording.trace.committed()
    index = SuffixAutomaton(per_match=1.5)
    found = []
    for i, token in enumerate(text):
        index.append(token)
        draft = index.propose(k)
        right = next((n for n in range(len(draft)) if draft[: n + 1] != text[i + 1 :][: n + 1]), len(draft))
        found.append(drafts.Found(recording.words[token], index.match, len(draft), right))
    return found


def slots_of(prompts, first=0):
    """Decodes prompts on four rows up to a context of 18 tokens; says which prompt each slot decodes."""
    target, draft = table_pair(3, 0, max_length=18)
    how = {"verifier": verify_greedy, "warp": Warp(temperature=0), "rng": SeededRng(0)}
    rounds = speculate(target, ModelDrafter(draft), prompts, k=1, max_new_tokens=18, batch_size=4, **how)
    return [[first + n if on else None for n, on in zip(r.prompt_ids, r.live, strict=True)] for r in rounds]


def of_numbers():
    """Yields every figure of numbers once."""
    info = read_json(SHIPPED / "stories" / "pair.json")
    yield learning([], history_of(info), info["entropy_floor"], guess=0)
    yield seven_billion()
    yield from of_the_rule()
    yield speed.latency(saved("latency").points, guess=5)
    points = saved("speed").points
    alphas = sorted({0.5, 0.7, 0.9, round(points[len(points) // 2].alpha, 2)})
    yield speed.speed_up_curves(alphas, points[0].c, points)
    yield speed.gain_by_k(points, assumed=0.1)
    yield speed.predicted_measured(points)
    sizes = saved("drafts").points
    yield speed.draft_sweep(sizes, guess=sizes[-1].name)
    yield speed.batch_sweep(saved("batches").points)
    yield speed.gain_by_rows(
        {64: [(1, 2.4), (8, 1.6), (64, 0.7)], 4096: [(1, 2.3), (8, 2.2), (64, 1.4)]}, k=4
    )
    yield matrix()


def of_the_rule():
    """Yields what four rules emit first on {a, b, c}, sampled, and what the third emits exactly."""
    rules = {"Rule 1": verify_greedy, "Rule 2": verify_coupled, "Rule 4": verify_rejection}
    counts = {name: first_token_counts(rule, P, Q, SAMPLES) for name, rule in rules.items()}
    with planted(mutant_named("correction-from-p")):
        counts["Rule 3"] = first_token_counts(verify_rejection, P, Q, SAMPLES)
        biased = first_token(verify_rejection, P, Q)
    yield distributions.sampled_shares(dict(sorted(counts.items())), P, "abc")
    yield distributions.rule_distribution(biased, P, "abc", guess=P, q=Q, name="Rule 3")
