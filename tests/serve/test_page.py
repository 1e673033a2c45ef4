"""The data owner's page in a real browser: from the key to the verdict and the saved report."""

import json
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_server import Live, picture

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    with playwright.sync_playwright() as started:
        try:  # without a path: the one that `playwright install chromium` has fetched
            launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        except playwright.Error:
            pytest.skip("there is no chromium on this machine; playwright install chromium fetches one")
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Any, live: Live) -> Generator[Any]:
    context = browser.new_context(accept_downloads=True, viewport={"width": 390, "height": 844})  # a phone
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on(
        "console", lambda m: problems.append(m.text) if m.type == "error" and "status of 4" not in m.text else None
    )
    opened.goto(live.url)
    yield opened
    context.close()
    assert not problems


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = []
    for i in range(8):
        path = tmp_path / f"picture <b>{i}.png"
        path.write_bytes(picture(seed=i, size=(24, 24)))
        paths.append(str(path))
    return paths


SLOW_PICTURES = """const quick = createImageBitmap;
window.createImageBitmap = (file) => new Promise((done) => setTimeout(done, 100)).then(() => quick(file));"""


@contextmanager
def download(page: Any) -> Generator[Any]:
    """What the page saves meanwhile; where nothing comes, what it says instead."""
    try:
        with page.expect_download() as saved:
            yield saved
    except playwright.TimeoutError as error:
        said = [page.locator(name).inner_text() for name in ("#error", "#plan", "#drawn", "#status")]
        raise AssertionError(f"nothing was saved; the page says {said}") from error


def connect(page: Any, key: str) -> None:
    page.get_by_label("The key that the model owner gave you").fill(key)
    page.keyboard.press("Enter")


def test_from_key_to_verdict(page: Any, alice: str, files: list[str], live: Live, tmp_path: Path) -> None:
    connect(page, alice)
    playwright.expect(page.locator("#about")).to_contain_text("100000 of 100000 queries are left")
    page.set_input_files("#files", files)
    playwright.expect(page.locator("#plan")).to_contain_text("4 to delete, 4 to hold back")
    with download(page) as saved:
        page.get_by_role("button", name="Draw now and save the file").click()
    split = json.loads(Path(saved.value.path()).read_text())
    assert sum(image["forget"] for image in split["images"]) == 4
    page.get_by_role("button", name="Compare", exact=True).click()
    playwright.expect(page.locator("#verdict")).to_be_visible(timeout=60_000)
    verdict = page.locator("#verdict").inner_text()
    assert verdict in ("Changed as requested", "No change found", "Inconclusive")
    assert "forgotten" not in page.locator("#words").inner_text()
    assert page.locator("#figures svg").count() == 5
    with download(page) as saved:
        page.get_by_role("button", name="Save the numbers").click()
    numbers = json.loads(Path(saved.value.path()).read_text())
    check_numbers(numbers, split)
    with download(page) as saved:
        page.get_by_role("button", name="Save the report").click()
    report = Path(saved.value.path()).read_text()
    assert verdict in report
    assert "<b>" not in report  # file names are escaped
    assert "http://127" not in report  # and nothing is loaded from anywhere
    page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    assert live.keys.find(alice).left == 100_000 - 2 * 8 * 16


def check_numbers(numbers: dict[str, Any], split: dict[str, Any]) -> None:
    """What the page computed and the server judged is what Python makes of the same matrices."""
    from muc.audit import hold_back_test

    gap = np.array(numbers["before"]) - np.array(numbers["after"])
    np.testing.assert_allclose(gap, numbers["gap"], atol=1e-12)
    forget = np.array([image["forget"] for image in numbers["images"]])
    assert numbers["p"] == pytest.approx(hold_back_test(gap, forget).p)
    asked = {image["sha256"] for image in split["images"] if image["forget"]}
    assert {image["sha256"] for image in numbers["images"] if image["forget"]} == asked
    assert (np.abs(numbers["before"]) <= 1 + 1e-6).all()


def test_a_saved_split_serves_the_same_images_only(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    with download(page) as saved:
        page.get_by_role("button", name="Draw now and save the file").click()
    split = tmp_path / "audit-split.json"
    saved.value.save_as(split)
    page.add_init_script(SLOW_PICTURES)  # the file of the split comes while they are still being read
    page.reload()
    connect(page, alice)
    page.set_input_files("#files", files[:7])
    page.set_input_files("#split", str(split))
    playwright.expect(page.locator("#error")).to_contain_text("1 of its images are not here")
    assert page.get_by_role("button", name="Compare", exact=True).is_disabled()
    page.set_input_files("#files", files[7:])
    page.set_input_files("#split", [])
    page.set_input_files("#split", str(split))
    playwright.expect(page.locator("#drawn")).to_contain_text("4 to delete, 4 held back")
    playwright.expect(page.get_by_role("button", name="Compare", exact=True)).to_be_enabled()


@pytest.mark.parametrize(("key", "complaint"), [("wrong", "the key is not valid"), ("ä", "key")])
def test_a_wrong_key_is_one_sentence(page: Any, key: str, complaint: str) -> None:
    connect(page, key)
    playwright.expect(page.locator("#error")).to_contain_text(complaint)


def test_a_file_that_is_no_picture_is_named(page: Any, alice: str, tmp_path: Path) -> None:
    (tmp_path / "note.png").write_text("no picture")
    connect(page, alice)
    page.set_input_files("#files", str(tmp_path / "note.png"))
    playwright.expect(page.locator("#error")).to_contain_text("'note.png' is not a picture")


def test_too_small_a_budget_is_said_before_anything_is_spent(page: Any, live: Live, files: list[str]) -> None:
    poor = live.keys.add("poor", 20)
    connect(page, poor)
    page.set_input_files("#files", files)
    with download(page):
        page.get_by_role("button", name="Draw now and save the file").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    playwright.expect(page.locator("#error")).to_contain_text("takes 32 queries, and 20 are left")
    assert live.keys.find(poor).left == 20


def test_everything_can_be_reached_by_keyboard(page: Any) -> None:
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached == ["key", "Connect", "files", "split"]  # what is disabled is passed over


@pytest.mark.parametrize(
    ("body", "status", "complaint"),
    [
        (b"{}", 422, "gap is not as expected"),
        (b"[", 422, "the body is not as expected"),
        (json.dumps({"gap": [[0.0] * 6] * 6, "forget": [True] * 6}).encode(), 422, "held back is 0"),
        (json.dumps({"gap": [[5.0] * 6] * 6, "forget": [True, False] * 3}).encode(), 422, "lie between -2 and 2"),
        (json.dumps({"gap": [[0.0] * 5] * 6, "forget": [True, False] * 3}).encode(), 422, "shape (6, 5)"),
        (b" " * 300_000, 413, "larger than"),
    ],
)
def test_bad_matrices_are_refused(live: Live, alice: str, body: bytes, status: int, complaint: str) -> None:
    with live.client(alice) as client:
        answer = client.post("/v1/verdict", content=body)
    assert (answer.status_code, complaint in answer.json()["error"]) == (status, True), answer.text


def test_a_slow_matrix_is_cut_off(live: Live, alice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from muc.serve import judging

    monkeypatch.setattr(judging, "BODY_SECONDS", 0.5)

    def slowly() -> Generator[bytes]:
        yield b"{"
        time.sleep(1.5)
        yield b"}"

    with live.client(alice) as client:
        assert client.post("/v1/verdict", content=slowly()).status_code == 408
