"""`generate` and `chat` with sampling: seeds, log-probabilities, logits, sessions, and what is refused."""

import numpy as np
import pytest

from symlight import SamplingOptions, open_model
from symlight.model.package import load_package
from tests.benches.host.host_bench import give_lines

SAMPLED = ("--temperature", 0.9, "--top-p", 0.95, "--min-p", 0.01)
PROMPT = ("--prompt-ids", "5 6 7 8", "--no-eos")
OPTIONS = SamplingOptions(temperature=0.9, top_p=0.95, min_p=0.01, seed=3)


@pytest.fixture
def sample(symlight, scaled_path):
    def call(*arguments, device="reference"):
        return symlight("generate", "--model", scaled_path, "--device", device, *PROMPT, *arguments)

    return call


@pytest.fixture(scope="module")
def expected(scaled_path):
    """The completion of `PROMPT` with `OPTIONS`, by the library."""
    with open_model(scaled_path, "reference") as model:
        return model.complete([5, 6, 7, 8], max_new_tokens=9, sampling=OPTIONS, eos=None, logprobs=2)


@pytest.mark.parametrize("device", ["reference", "cpu:1"])
@pytest.mark.parametrize("more", [[], ["--interactive"], ["--logprobs", 2], ["--verify"]])
def test_a_seed_gives_one_text_on_every_device(sample, expected, device, more):
    report = sample(*SAMPLED, "--seed", 3, "--max-new-tokens", 9, "--json", *more, device=device).json
    assert report["tokens"] == expected.ids and report["text"] == expected.text
    assert report["seed"] == 3 and SamplingOptions.from_json(report["sampling"]) == OPTIONS
    assert report["verified"] == (True if "--verify" in more else None)
    if "--logprobs" in more:
        assert [entry["id"] for entry in report["logprobs"]] == expected.ids
        for entry, token in zip(report["logprobs"], expected.tokens, strict=True):
            assert entry["logprob"] == token.logprob and entry["position"] == token.position
            assert [other["id"] for other in entry["top"]] == [other.id for other in token.alternatives]
    else:
        assert report["logprobs"] is None


def test_without_a_seed_a_random_one_is_told(sample):
    reports = [sample(*SAMPLED, "--max-new-tokens", 9, "--json").json for _ in range(2)]
    assert reports[0]["seed"] != reports[1]["seed"]
    again = sample(*SAMPLED, "--seed", reports[0]["seed"], "--max-new-tokens", 9, "--json").json
    assert again["tokens"] == reports[0]["tokens"]
    summary = sample(*SAMPLED, "--seed", 77, "--max-new-tokens", 2).err
    assert "temperature 0.9, top_p 0.95, min_p 0.01, seed 77" in " ".join(summary.split())


def test_greedy_stays_the_default(sample):
    report = sample("--max-new-tokens", 3, "--json").json
    assert report["seed"] is None and report["sampling"]["temperature"] == 0
    assert sample("--max-new-tokens", 3, "--seed", 5, "--json").json["tokens"] == report["tokens"]


@pytest.mark.parametrize("device", ["reference", "cpu:1"])
def test_logits_of_every_position_are_written(sample, scaled_path, tmp_path, device):
    file = tmp_path / "logits.npy"
    more = ("--seed", 3, "--max-new-tokens", 4, "--logits-out", file, "--json")
    tokens = sample(*SAMPLED, *more, device=device).json["tokens"]
    with open_model(scaled_path, "reference") as model:
        expected = model.logits([5, 6, 7, 8, *tokens[:-1]])
    assert np.array_equal(np.load(file), expected) and np.load(file).dtype == np.int64
    chosen = sample(*SAMPLED, *more, "--logprobs", 0, device=device).json
    assert np.array_equal(np.load(file), expected) and len(chosen["logprobs"]) == 4
    assert "does not exist" in sample("--logits-out", tmp_path / "no" / "x", "--json").error()


def test_a_saved_session_goes_on_with_its_sampling(sample, expected, tmp_path):
    state = ("--save-state", tmp_path / "s")
    first = sample(*SAMPLED, "--seed", 3, "--max-new-tokens", 4, "--json", *state).json["tokens"]
    rest = ("--load-state", tmp_path / "s", "--max-new-tokens", 5, "--json")
    whole = sample(*rest)  # which ingests the prompt once more, and chooses as before
    assert whole.json["seed"] == 3 and whole.json["sampling"]["top_p"] == 0.95
    greedy = sample(*rest, "--temperature", 0).json
    assert greedy["seed"] is None
    assert first == expected.ids[:4]


def test_a_stop_text_ends_a_sampled_text(sample, expected):
    stop = next(token.text for token in expected.tokens[3:] if token.text.strip())
    report = sample(*SAMPLED, "--seed", 3, "--max-new-tokens", 9, "--stop", stop, "--json").json
    assert report["stop_reason"] == "stop" and report["tokens"] == expected.ids[: len(report["tokens"])]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--top-p", 0.9], "--top-p changes nothing at temperature 0"),
        (["--temperature", -1], "temperature is -1"),
        (["--temperature", 1, "--top-k", 65], "top_k is 65"),
        (["--temperature", 1, "--min-p", 2], "min_p is 2"),
        (["--logprobs", 2], "give --json too"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(sample, arguments, words):
    assert words in sample(*arguments).error()


def test_without_a_logit_scale_a_temperature_is_refused(on_card, tmp_path):
    assert "logit_scale" in on_card("--prompt-ids", "1 2", "--temperature", 1).error()
    assert on_card("--prompt-ids", "1 2", "--logits-out", tmp_path / "x.npy", "--json", "--verify").json


def test_the_host_samples_for_a_kernel(symlight, fake_pyxrt, xclbin, scaled_path, expected):
    words = ("generate", "--model", scaled_path, "--device", "xrt:0", "--xclbin", xclbin, *PROMPT, *SAMPLED)
    report = symlight(*words, "--seed", 3, "--max-new-tokens", 9, "--json", "--logprobs", 1, "--verify").json
    assert report["tokens"] == expected.ids and report["verified"] is True
    assert [entry["logprob"] for entry in report["logprobs"]] == [token.logprob for token in expected.tokens]


def test_chat_samples_by_default(symlight, monkeypatch, scaled_path, tmp_path):
    package = load_package(scaled_path)

    def talk(lines, *arguments):
        give_lines(monkeypatch, [*lines, "/quit"])
        words = ("--model", scaled_path, "--device", "reference", "--max-new-tokens", 6, *arguments)
        result = symlight("chat", *words)
        assert result.code == 0, result.err
        return result

    chosen = SamplingOptions(temperature=0.8, top_p=0.95, min_p=0.05, seed=9)
    lines = ["In the", "", f"/save {tmp_path / 's'}", "a light"]
    result = talk(lines, "--seed", 9, "--verify")
    with open_model(scaled_path, "reference") as model:
        session = model.session()
        texts = [
            session.complete(line, max_new_tokens=6, sampling=chosen).text + "\n"
            for line in ("In the", "", "\na light")
        ]
    assert result.out == "".join(texts)
    assert "temperature 0.8, top_p 0.95, min_p 0.05, seed 9" in " ".join(result.err.split())
    resumed = talk([f"/load {tmp_path / 's'}", "a light"])
    assert resumed.out == texts[2] and "seed 9" in resumed.err
    greedy = talk(["In the"], "--temperature", 0)
    tokens = package.tokenizer.encode("In the")
    with open_model(scaled_path, "reference") as model:
        assert greedy.out == model.complete(tokens, max_new_tokens=6).text + "\n"


def test_chat_is_greedy_where_sampling_is_impossible(symlight, monkeypatch, package_path):
    for more, code in (([], 0), (["--temperature", 1], 2)):
        give_lines(monkeypatch, ["In the", "/quit"])
        result = symlight("chat", "--model", package_path, "--device", "reference", *more)
        assert result.code == code and "logit_scale" in " ".join(result.err.split())
        assert ("greedy, because" in result.err) == (code == 0)
