"""minispec: speculative decoding, complete and readable.

A draft model guesses K tokens, the target checks them in one parallel pass, a verifier keeps a prefix, both
caches roll back. The output has exactly the target's distribution. Read `minispec.core.basic` first, then
`minispec.core.loop`.
"""

import minispec.interrupt  # noqa: F401  first: it is for the imports that follow
from minispec.core.batch import Request
from minispec.core.cache import KVCache
from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.loop import generate, speculate
from minispec.core.model import GPT, GPTConfig, LanguageModel
from minispec.core.records import Draft, Round, Verdict
from minispec.core.rng import Rng, RoundRng, SeededRng
from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.drafters.adaptive import AdaptiveDrafter
from minispec.drafters.choice import ChoosingDrafter
from minispec.drafters.costs import Costs
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.stopping import StoppingDrafter
from minispec.drafters.suffix import SuffixDrafter
from minispec.evidence.checker.calling import completions_engine, in_batches
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.engine import check_engine
from minispec.evidence.checker.engine_report import EngineReport
from minispec.evidence.checker.report import Report
from minispec.evidence.proof.enumeration import EnumeratingRng
from minispec.io.checkpoint import Pair, load_pair
from minispec.io.observe import observe, record
from minispec.io.source import load_model
from minispec.io.stream import stream
from minispec.io.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from minispec.io.trace import CacheLengths, Statistics, Trace
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import KeyedRng, verify_coupled
from minispec.verifiers.fixed_width import FixedWidth

__version__ = "0.3.0"

__all__ = [
    "GPT",
    "AdaptiveDrafter",
    "CacheLengths",
    "ChoosingDrafter",
    "Costs",
    "Draft",
    "Drafter",
    "EngineReport",
    "EnumeratingRng",
    "FixedWidth",
    "GPTConfig",
    "KVCache",
    "KeyedRng",
    "LanguageModel",
    "ModelDrafter",
    "NgramDrafter",
    "Pair",
    "Report",
    "Request",
    "Rng",
    "Round",
    "RoundRng",
    "SeededRng",
    "Statistics",
    "StoppingDrafter",
    "SuffixDrafter",
    "Tokenizer",
    "Trace",
    "Verdict",
    "Verifier",
    "Warp",
    "check_engine",
    "check_verifier",
    "completions_engine",
    "generate",
    "in_batches",
    "load_model",
    "load_pair",
    "load_tokenizer",
    "observe",
    "record",
    "speculate",
    "stream",
    "train_tokenizer",
    "verify_block",
    "verify_coupled",
    "verify_greedy",
    "verify_rejection",
]
