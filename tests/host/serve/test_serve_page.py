"""The built-in page in headless Chromium: a message is answered, figures appear."""

import json
import shutil
import subprocess
import time
import urllib.request

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-port=0",
)  # fmt: skip
SCRIPT = """
(async () => {
  for (let i = 0; i < 200 && !document.getElementById("figures").children.length; i++)
    await new Promise(done => setTimeout(done, 50));
  document.getElementById("text").value = "In the beginning";
  document.getElementById("temperature").value = "0";
  document.getElementById("tokens").value = "12";
  document.getElementById("ask").requestSubmit();
  for (let i = 0; i < 200 && !document.getElementById("rate").textContent; i++)
    await new Promise(done => setTimeout(done, 50));
  await new Promise(done => setTimeout(done, 300));
  return JSON.stringify({
    said: [...document.querySelectorAll(".said")].map(line => line.textContent),
    rate: document.getElementById("rate").textContent,
    figures: document.getElementById("figures").innerText,
    model: document.getElementById("model").textContent,
  });
})()
"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_the_page_answers(server, tmp_path):
    websockets = pytest.importorskip("websockets.sync.client", reason="websockets is not installed")
    browser = subprocess.Popen(
        ["chromium", *FLAGS, f"--user-data-dir={tmp_path}", f"{server.address}/"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port_file = tmp_path / "DevToolsActivePort"
        until = time.monotonic() + 30
        while not port_file.exists() or not port_file.read_text():
            assert time.monotonic() < until and browser.poll() is None, "Chromium does not start"
            time.sleep(0.1)
        port = port_file.read_text().split()[0]
        tabs = []
        while not tabs:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                tabs = [one for one in json.load(answer) if one["title"] == "symlight"]
            assert time.monotonic() < until, "Chromium does not show the page"
        (tab,) = tabs
        with websockets.connect(tab["webSocketDebuggerUrl"], max_size=None) as line:
            line.send(json.dumps({"id": 1, "method": "Runtime.evaluate", "params": {
                "expression": SCRIPT, "awaitPromise": True, "returnByValue": True}}))  # fmt: skip
            answer = json.loads(line.recv(timeout=60))
            assert "exceptionDetails" not in answer["result"], answer
            seen = json.loads(answer["result"]["result"]["value"])
    finally:
        browser.kill()
        browser.wait()
    said = server.post(
        "/v1/chat/completions", messages=[{"role": "user", "content": "In the beginning"}], max_tokens=12,
        temperature=0,
    ).json()["choices"][0]["message"]["content"]  # fmt: skip
    assert seen["said"] == ["In the beginning", said]
    assert "tokens/s" in seen["rate"] and seen["model"] == "demo on cpu:1"
    assert "event density, qkv" in seen["figures"] and "device time per pass" in seen["figures"]
