"""minispec: speculative decoding, complete and readable.

A draft model guesses K tokens, the target checks them in one parallel pass, a verifier keeps a prefix, both
caches roll back. The output has exactly the target's law. Start with `minispec.decoding.loop`.
"""

from minispec.decoding.adaptive import AdaptiveDrafter
from minispec.decoding.costs import Costs
from minispec.decoding.draft import Drafter, ModelDrafter
from minispec.decoding.loop import generate, record, speculate
from minispec.decoding.records import CacheLengths, Draft, Round, Statistics, Trace, Verdict
from minispec.decoding.rng import KeyedRng, Rng, SeededRng
from minispec.decoding.stopping import FixedStop, LearnedStop, StoppingDrafter
from minispec.decoding.stream import stream
from minispec.decoding.verify import Verifier, verify_coupled, verify_greedy, verify_rejection
from minispec.decoding.warp import Warp
from minispec.evidence.check import Report, check_verifier
from minispec.evidence.enumeration import EnumeratingRng
from minispec.lm.cache import KVCache
from minispec.lm.checkpoint import Pair, load_model, load_pair
from minispec.lm.fixed_width import FixedWidth
from minispec.lm.model import GPT, GPTConfig, LanguageModel
from minispec.lm.tokenizer import Tokenizer, load_tokenizer, train_tokenizer

__version__ = "0.1.0"

__all__ = [
    "GPT",
    "AdaptiveDrafter",
    "CacheLengths",
    "Costs",
    "Draft",
    "Drafter",
    "EnumeratingRng",
    "FixedStop",
    "FixedWidth",
    "GPTConfig",
    "KVCache",
    "KeyedRng",
    "LanguageModel",
    "LearnedStop",
    "ModelDrafter",
    "Pair",
    "Report",
    "Rng",
    "Round",
    "SeededRng",
    "Statistics",
    "StoppingDrafter",
    "Tokenizer",
    "Trace",
    "Verdict",
    "Verifier",
    "Warp",
    "check_verifier",
    "generate",
    "load_model",
    "load_pair",
    "load_tokenizer",
    "record",
    "speculate",
    "stream",
    "train_tokenizer",
    "verify_coupled",
    "verify_greedy",
    "verify_rejection",
]
