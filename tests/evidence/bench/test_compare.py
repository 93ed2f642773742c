"""What a bench report says of its own predictions."""

from minispec.evidence.bench.sections.compare import compare

PROMISE = {"section": "batch", "simple": 3.0, "tokens_per_target_call": 4.0}
POINT = {"low": 0.0, "high": 9.0}


def batch_report(promised, measured):
    """Returns a report with batches of 1, 2, 4 … rows."""
    names = [f"{2**i} rows" for i in range(len(promised))]
    return {
        "prediction": {
            "settings": [
                PROMISE | {"setting": name, "speedup": gain}
                for name, gain in zip(names, promised, strict=True)
            ]
        },
        "batch": {
            "points": [
                POINT | {"setting": name, "rows": 2**i, "gain": gain}
                for i, (name, gain) in enumerate(zip(names, measured, strict=True))
            ]
        },
    }


def test_every_batch_that_loses_is_named():
    """Also one in the middle, behind which larger ones gain again."""
    (choice,) = compare(batch_report([2.0, 1.1, 1.2, 1.3], [2.0, 0.9, 0.8, 1.3]))["choices"]
    assert choice == {"what": "batches that lose", "predicted": "none", "measured": "2, 4"}
    (choice,) = compare(batch_report([2.0, 0.9], [1.9, 1.0]))["choices"]
    assert choice == {"what": "batches that lose", "predicted": "2", "measured": "none"}
