"""lm_eval runs a task on a small fixed text set through `echo` and `logprobs`, with exactly our scores."""

import json

import pytest

import symlight

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
QUESTIONS = [
    ("And the king of Israel", [" said unto", " computed the", " of the land"], 0),
    ("In the beginning", [" of the year", " zebra", " of the month"], 2),
    ("And he went", [" up to the city", " out and in", " quantum"], 0),
    ("Now these are the", [" words", " names of the children", " sons"], 1),
    ("The LORD said unto", [" Moses", " me", " him, Go"], 0),
]
TASK = """
task: verses
dataset_path: json
dataset_kwargs:
  data_files:
    test: {file}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{label}}}}"
target_delimiter: ""
metric_list:
  - metric: acc
metadata:
  version: 1
"""


def direct(model) -> list[list[float]]:
    """Log-probability of every choice after its question, by the library."""
    scores = []
    for question, choices, _ in QUESTIONS:
        begun = len(model.encode(question))
        scored = [model.score(question + choice) for choice in choices]
        scores.append([sum(token.logprob for token in tokens[begun:]) for tokens in scored])
    return scores


def test_a_task_has_the_scores_of_a_direct_computation(server, tmp_path, monkeypatch):
    lm_eval = pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    tasks = pytest.importorskip("lm_eval.tasks", reason="lm_eval[api] is not installed")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    file = tmp_path / "verses.jsonl"
    rows = [
        {"question": question, "choices": choices, "label": label} for question, choices, label in QUESTIONS
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "verses.yaml").write_text(TASK.format(file=file))
    result = lm_eval.simple_evaluate(
        model="local-completions",
        model_args={
            "model": "demo", "base_url": f"{server.address}/v1/completions",
            "tokenizer_backend": "remote", "num_concurrent": 4, "max_retries": 1,
        },
        tasks=["verses"],
        task_manager=tasks.TaskManager(include_path=str(tmp_path), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )  # fmt: skip
    with symlight.open_model("demo", device="reference") as model:
        expected = direct(model)
    samples = sorted(result["samples"]["verses"], key=lambda sample: sample["doc_id"])
    found = [[float(score) for score, _ in sample["filtered_resps"]] for sample in samples]
    assert found == expected
    right = [
        scores.index(max(scores)) == label for scores, (_, _, label) in zip(expected, QUESTIONS, strict=True)
    ]
    assert result["results"]["verses"]["acc,none"] == sum(right) / len(right)
