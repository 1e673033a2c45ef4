"""The data owner's page in a real browser: from the key to the verdict and the saved report."""

import json
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_server import Live, picture
from PIL import Image

from muc.serve.pair import Pair, Which
from muc.serve.static import PAGE

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    with playwright.sync_playwright() as started:
        try:  # without a path: the one that `playwright install chromium` has fetched
            launched = started.chromium.launch(
                executable_path=CHROMIUM,
                args=["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP elsewhere.test 127.0.0.1"],
            )
        except playwright.Error:
            pytest.skip("there is no chromium on this machine; playwright install chromium fetches one")
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Any, live: Live) -> Generator[Any]:
    context = browser.new_context(accept_downloads=True, viewport={"width": 375, "height": 800})  # a phone
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("response", lambda r: problems.append(r.url) if r.status == 404 else None)
    expected = (
        "status of 4",
        "net::ERR_FAILED",
        "Cross-Origin-Opener-Policy header has been ignored",
    )  # refusals; addresses not trusted

    def note(message: Any) -> None:
        if message.type == "error" and not any(words in message.text for words in expected):
            problems.append(message.text)

    opened.on("console", note)
    opened.goto(live.url)
    yield opened
    opened.unroute_all(behavior="ignoreErrors")
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


@pytest.fixture
def withheld(tmp_path: Path) -> list[str]:
    paths = []
    for i in range(4):
        path = tmp_path / f"own {i}.png"
        path.write_bytes(picture(seed=50 + i, size=(24, 24)))
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


NOTHING_UNLEARNED = """() => {
  const real = window.fetch;
  window.fetch = async (path, options) => {
    const answer = await real(path, options);
    if (path !== "v1/about" || !answer.ok) return answer;
    const values = await answer.json();
    values.models.after = values.models.before;
    return new Response(JSON.stringify(values), { status: 200 });
  };
  window.unlearned = () => { window.fetch = real; };
}"""


def draw(page: Any, path: Path) -> dict[str, Any]:
    """Press the button, while the server has one model; what was saved is then at the path."""
    page.evaluate(NOTHING_UNLEARNED)
    with download(page) as saved:
        page.get_by_role("button", name="Draw now and save the file").click()
    saved.value.save_as(path)
    playwright.expect(page.locator("#status")).to_contain_text("Drawn.")
    page.evaluate("window.unlearned()")
    return json.loads(path.read_text())


def compare_button(page: Any) -> Any:
    return page.get_by_role("button", name="Compare", exact=True)


def compare(page: Any) -> dict[str, Any]:
    """The numbers that the page then saves."""
    compare_button(page).click()
    playwright.expect(page.locator("#status")).to_have_text("Done.", timeout=60_000)
    with download(page) as saved:
        page.get_by_role("button", name="Save the numbers").click()
    return json.loads(Path(saved.value.path()).read_text())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[bytes]]:
    """By model: the pixels of every piece that it is asked about."""
    seen: dict[str, list[bytes]] = {"before": [], "after": []}
    embed = Pair.embed

    def note(pair: Pair, which: Which, pixels: np.ndarray) -> np.ndarray:
        seen[which] += [piece.tobytes() for piece in pixels]
        return embed(pair, which, pixels)

    monkeypatch.setattr(Pair, "embed", note)
    return seen


def answer_about(page: Any, **over: object) -> None:
    """The server says this of itself from now on."""

    def change(route: Any) -> None:
        answer = route.fetch()
        if answer.ok:
            values = {name: value for name, value in {**answer.json(), **over}.items() if value is not None}
            route.fulfill(response=answer, json=values)
        else:
            route.fulfill(response=answer)

    page.route("**/v1/about", change)


def test_from_key_to_verdict(page: Any, alice: str, files: list[str], live: Live, tmp_path: Path) -> None:
    connect(page, alice)
    playwright.expect(page.locator("#about")).to_contain_text("100000 of 100000 queries are left")
    page.set_input_files("#files", files)
    playwright.expect(page.locator("#plan")).to_contain_text("4 to delete, 4 to hold back")
    playwright.expect(page.locator("#plan")).to_contain_text("takes 256 queries: 8 pairs")
    split = draw(page, tmp_path / "audit-split.json")
    assert sum(image["forget"] for image in split["images"]) == 4
    numbers = compare(page)
    check_numbers(numbers, split)
    verdict = page.locator("#verdict").inner_text()
    assert verdict in ("Changed as requested", "No change found", "Inconclusive")
    assert "forgotten" not in page.locator("#words").inner_text()
    assert page.locator("#figures svg").count() == 5
    page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    assert live.keys.find(alice).left == 100_000 - 2 * 8 * 16


def test_the_report_stands_for_itself_on_a_phone(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    split = draw(page, tmp_path / "audit-split.json")
    numbers = compare(page)
    with download(page) as saved:
        page.get_by_role("button", name="Save the report").click()
    report = tmp_path / "report.html"
    saved.value.save_as(report)
    text = report.read_text()
    assert "<b>" not in text  # file names are escaped
    assert "http://127" not in text  # and nothing is loaded from anywhere
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert page.locator('meta[name="viewport"]').count() == 1
    headings = page.locator("h1, h2").all_inner_texts()
    assert headings == ["Audit report: did the model change how it treats these images?", "What it shows"]
    shown = page.locator("main").inner_text()
    for expected in (*numbers["models"].values(), split["drawn"], split["images"][0]["sha256"], "held back"):
        assert expected in shown
    page.emulate_media(media="print")
    assert page.locator("table").last.is_visible()
    page.goto("about:blank")


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


def test_a_comparison_can_be_repeated_and_asks_the_same_again(
    page: Any, alice: str, files: list[str], tmp_path: Path, sent: dict[str, list[bytes]]
) -> None:
    """Or one could go on until the outcome pleases."""
    connect(page, alice)
    page.set_input_files("#files", files)
    split = draw(page, tmp_path / "audit-split.json")
    first = compare(page)
    again = compare(page)
    page.reload()
    connect(page, alice)
    page.set_input_files("#files", files[::-1])
    page.set_input_files("#split", str(tmp_path / "audit-split.json"))
    later = compare(page)
    assert len(sent["before"]) == 8 * 16
    assert len(set(sent["before"])) > 100
    assert sorted(sent["after"]) == sorted(3 * sent["before"])
    for other in (again, later):
        assert (other["verdict"], other["p"]) == (first["verdict"], first["p"])
        np.testing.assert_allclose(other["gap"], first["gap"], atol=1e-5)
    assert len(bytes.fromhex(split["seed"])) == 32
    assert split["seed"] not in json.dumps(first)  # which may be handed on


def test_withheld_images_tell_what_the_model_remembers(
    page: Any, alice: str, files: list[str], withheld: list[str], tmp_path: Path, sent: dict[str, list[bytes]]
) -> None:
    from muc.audit import memory_of

    connect(page, alice)
    page.set_input_files("#files", files)
    page.set_input_files("#withheld", withheld)
    playwright.expect(page.locator("#chosen-withheld")).to_have_text("4 images")
    playwright.expect(page.locator("#plan")).to_contain_text("takes 320 queries: 8 pairs")
    playwright.expect(page.locator("#plan")).to_contain_text("192 queries now and 128 after the deletion")
    split = draw(page, tmp_path / "audit-split.json")
    assert (len(sent["before"]), len(split["before"]), len(split["withheld"])) == (12 * 16, 8, 4)
    assert "own" not in json.dumps(split)  # no names of them
    first = compare(page)
    page.reload()
    connect(page, alice)
    page.set_input_files("#files", files)
    page.set_input_files("#split", str(tmp_path / "audit-split.json"))
    playwright.expect(page.locator("#drawn")).to_contain_text("asked about 4 images that you never gave away")
    with page.expect_request("**/v1/verdict") as asked:
        again = compare(page)
    expected = {"published": np.diagonal(split["before"]).tolist(), "withheld": split["withheld"]}
    assert asked.value.post_data_json["memory"] == expected
    assert again["memory"] == first["memory"]
    assert len(sent["after"]) == 2 * 8 * 16
    memory = memory_of(np.diagonal(split["before"]), np.array(split["withheld"]))
    assert again["memory"]["low"] == pytest.approx(memory.low)
    assert again["withheld"] == split["withheld"]  # so that anyone can compute it again
    sentence = f"by {memory.value:.3f} in cosine (interval {memory.low:.3f} to {memory.high:.3f}, 4 images never given"
    playwright.expect(page.locator("#memory")).to_contain_text(sentence)
    with download(page) as saved:
        page.get_by_role("button", name="Save the report").click()
    assert sentence in Path(saved.value.path()).read_text()


def test_without_withheld_images_nothing_is_said_of_memory(
    page: Any, alice: str, files: list[str], tmp_path: Path
) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    assert "withheld" not in draw(page, tmp_path / "split.json")
    with page.expect_request("**/v1/verdict") as asked:
        assert compare(page)["memory"] is None
    assert "memory" not in asked.value.post_data_json
    assert page.locator("#memory").is_hidden()


def test_withheld_images_are_handled_like_the_others(
    page: Any, alice: str, files: list[str], withheld: list[str], tmp_path: Path
) -> None:
    (tmp_path / "note.png").write_text("no picture")
    draw_button = page.get_by_role("button", name="Draw now and save the file")
    connect(page, alice)
    page.set_input_files("#files", files)
    playwright.expect(draw_button).to_be_enabled()
    page.get_by_label("Images you never gave away (optional, at least 3)").set_input_files([*withheld[:2], files[0]])
    playwright.expect(page.locator("#error")).to_contain_text("is among your images to compare already")
    page.set_input_files("#withheld", [*withheld[:2], str(tmp_path / "note.png")])
    playwright.expect(page.locator("#error")).to_contain_text("'note.png' is not a picture")
    assert page.locator("#thumbnails-withheld li").count() == 0
    page.set_input_files("#withheld", withheld[:2])
    playwright.expect(page.locator("#chosen-withheld")).to_have_text("2 images; at least 3 are needed, or none")
    assert draw_button.is_disabled()
    page.set_input_files("#files", withheld[0])
    playwright.expect(page.locator("#error")).to_contain_text("is among the images that you never gave away already")
    page.set_input_files("#withheld", withheld[2])
    draw(page, tmp_path / "split.json")
    page.get_by_role("button", name="Remove own 1.png").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.get_by_role("button", name="Remove own 2.png")).to_be_focused()
    playwright.expect(page.locator("#status")).to_contain_text("The draw was of other images")
    assert compare_button(page).is_disabled()
    page.set_input_files("#split", str(tmp_path / "split.json"))
    playwright.expect(page.locator("#drawn")).to_contain_text("asked about 3 images")
    assert page.locator("#thumbnails-withheld li").count() == 0  # not needed again
    page.set_input_files("#withheld", withheld[3])
    playwright.expect(page.locator("#status")).to_contain_text("load its file again")
    with page.expect_file_chooser() as chooser:
        page.locator("#split").click()
    chooser.value.set_files(str(tmp_path / "split.json"))  # the same once more
    playwright.expect(compare_button(page)).to_be_enabled()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_pieces_are_such_as_the_model_was_trained_with(
    page: Any, alice: str, tmp_path: Path, sent: dict[str, list[bytes]]
) -> None:
    plain = {"min_scale": 0.3, "flip": 0, "jitter": 0, "brightness": 1, "contrast": 1, "saturation": 1, "hue": 0.5}
    answer_about(page, views={**plain, "grayscale": 0})
    files = []
    for i in range(6):
        pixels = np.full((40, 40), 20, np.uint8)
        pixels[:, 20:] = 150 + i  # light on the right
        Image.fromarray(pixels).save(tmp_path / f"{i}.png")
        files.append(str(tmp_path / f"{i}.png"))
    connect(page, alice)
    page.set_input_files("#files", files)
    assert draw(page, tmp_path / "split.json")["views"]["jitter"] == 0
    pieces = np.array([np.frombuffer(piece, np.uint8).reshape(8, 8) for piece in sent["before"]], int)
    assert (pieces[:, :, 0] <= pieces[:, :, -1]).all()  # never mirrored
    assert pieces.min() > 0  # never in another light
    assert pieces.max() < 175


def test_a_server_that_says_nothing_of_views_is_asked_as_ever(
    page: Any, alice: str, files: list[str], tmp_path: Path
) -> None:
    answer_about(page, views=None)
    connect(page, alice)
    page.set_input_files("#files", files)
    assert draw(page, tmp_path / "split.json")["views"]["min_scale"] == 0.3


IDLE_NEVER_COMES = """HTMLCanvasElement.prototype.toBlob = () => {};
OffscreenCanvas.prototype.convertToBlob = () => new Promise(() => {});"""
NOTE_STATUS = """window.said = [];
addEventListener("DOMContentLoaded", () => {
  const status = document.getElementById("status");
  new MutationObserver(() => said.push(status.textContent)).observe(status, { childList: true });
});"""


def test_a_busy_tab_does_not_hold_the_comparison_up(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    """Chromium encodes pictures on the page's thread when that is idle, or after a second each."""
    page.add_init_script(IDLE_NEVER_COMES)
    page.add_init_script(NOTE_STATUS)
    page.reload()
    connect(page, alice)
    page.set_input_files("#files", files)
    draw(page, tmp_path / "split.json")
    compare(page)
    said = page.evaluate("said")
    assert "cutting 16 of 128 pieces" in said
    assert said.index("cutting 112 of 128 pieces") < said.index("compared 64 of 128 pieces")


def test_a_browser_without_offscreen_canvas_cuts_on_the_page(
    page: Any, alice: str, files: list[str], tmp_path: Path
) -> None:
    page.add_init_script("delete window.OffscreenCanvas")
    page.reload()
    connect(page, alice)
    page.set_input_files("#files", files)
    draw(page, tmp_path / "split.json")
    compare(page)


def test_a_saved_split_serves_the_same_images_only(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    split = tmp_path / "audit-split.json"
    draw(page, split)
    page.add_init_script(SLOW_PICTURES)  # the file of the split comes while they are still being read
    page.reload()
    connect(page, alice)
    page.set_input_files("#files", files[:7])
    page.set_input_files("#split", str(split))
    playwright.expect(page.locator("#error")).to_contain_text("1 of its images are not here")
    assert compare_button(page).is_disabled()
    page.set_input_files("#files", files[7:])
    page.set_input_files("#split", [])
    page.set_input_files("#split", str(split))
    playwright.expect(page.locator("#drawn")).to_contain_text("4 to delete, 4 held back")
    playwright.expect(compare_button(page)).to_be_enabled()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"version": 2}, "is of an earlier version of this page"),
        ({"version": 4}, "was changed or damaged, or is of a newer version"),
        ({"models": {"before": "0" * 64, "after": "0" * 64}}, "was changed or damaged"),
        ({"seed": "0" * 64}, "was changed or damaged"),
        ({"view_pairs": 3}, "was changed or damaged"),
        ({"before": [[0]]}, "was changed or damaged"),
        ({"withheld": [0.5, 0.5, "x"]}, "was changed or damaged"),
        ({"seal": None}, "was changed or damaged"),
        ({"format": "other"}, "is not a file that this page has saved"),
    ],
)
def test_a_split_that_cannot_be_used_is_refused(
    page: Any, alice: str, files: list[str], tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    split = draw(page, tmp_path / "drawn.json")
    page.reload()
    connect(page, alice)
    page.set_input_files("#files", files)
    (tmp_path / "split.json").write_text(json.dumps({**split, **change}))
    page.set_input_files("#split", str(tmp_path / "split.json"))
    playwright.expect(page.locator("#error")).to_contain_text(complaint)
    assert compare_button(page).is_disabled()


def test_a_model_before_that_was_exchanged_is_noticed(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    draw(page, tmp_path / "split.json")
    answer_about(page, models={"before": "0" * 64, "after": "1" * 64})
    compare_button(page).click()
    playwright.expect(page.locator("#error")).to_contain_text("The model before is not the one of your draw")


def test_before_there_is_a_newer_model_nothing_is_asked(
    page: Any, alice: str, files: list[str], tmp_path: Path, live: Live
) -> None:
    """The budget is for the real comparison, and a model from before the draw cannot be the answer to it."""
    connect(page, alice)
    page.set_input_files("#files", files)
    page.evaluate(NOTHING_UNLEARNED)
    with download(page):
        page.get_by_role("button", name="Draw now and save the file").click()
    playwright.expect(page.locator("#status")).to_contain_text("Drawn.")
    left = live.keys.find(alice).left
    compare_button(page).click()
    playwright.expect(page.locator("#error")).to_contain_text("The deletion is not done yet")
    page.evaluate("window.unlearned()")  # now the other model is served, and drawn with
    page.get_by_role("button", name="Remove picture <b>7.png").click()
    with download(page):
        page.get_by_role("button", name="Draw now and save the file").click()
    playwright.expect(page.locator("#status")).to_contain_text("Drawn.")
    assert live.keys.find(alice).left == left - 7 * 16
    compare_button(page).click()
    playwright.expect(page.locator("#error")).to_contain_text("The model after is the one that was there when you drew")
    assert live.keys.find(alice).left == left - 7 * 16


def test_the_list_to_send_is_shown_and_saved(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    assert not page.locator("#request").is_visible()
    split = draw(page, tmp_path / "audit-split.json")
    asked = "".join(f"{image['name']}\n" for image in split["images"] if image["forget"])
    assert page.get_by_label("Ask for exactly these to be deleted").input_value() == asked
    with download(page) as saved:
        page.get_by_role("button", name="Save this list").click()
    assert Path(saved.value.path()).read_text() == asked
    with download(page) as again:  # where the first was not kept
        page.get_by_role("button", name="Save the file again").click()
    assert json.loads(Path(again.value.path()).read_text()) == split


def test_two_images_of_one_name_are_refused(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    """Whoever is asked to delete one of them could not tell which."""
    (tmp_path / "other").mkdir()
    same = tmp_path / "other" / Path(files[0]).name
    same.write_bytes(picture(seed=77))
    connect(page, alice)
    page.set_input_files("#files", files)
    page.set_input_files("#files", [str(same)])
    playwright.expect(page.locator("#error")).to_contain_text("Two of your images are called 'picture <b>0.png'")
    playwright.expect(page.locator("#chosen")).to_have_text("8 images")


def test_a_connection_that_comes_back_goes_on(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    lost = iter([True, True, False])

    def lose(route: Any) -> None:
        route.abort() if next(lost, False) else route.continue_()

    page.route("**/v1/embed?model=before", lose)
    draw(page, tmp_path / "audit-split.json")


def test_a_broken_file_among_others_changes_nothing(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "new.png").write_bytes(picture(seed=99))
    (tmp_path / "note.png").write_text("no picture")
    connect(page, alice)
    page.set_input_files("#files", files)
    split = draw(page, tmp_path / "split.json")
    page.set_input_files("#files", [str(tmp_path / "new.png"), str(tmp_path / "note.png")])
    playwright.expect(page.locator("#error")).to_contain_text("'note.png' is not a picture")
    playwright.expect(page.locator("#chosen")).to_have_text("8 images")
    assert page.locator("#thumbnails li").count() == 8
    numbers = compare(page)
    assert len(numbers["images"]) == 8
    check_numbers(numbers, split)


def test_an_image_can_be_removed_again(page: Any, alice: str, files: list[str], tmp_path: Path) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    draw(page, tmp_path / "split.json")
    page.get_by_role("button", name="Remove picture <b>3.png").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#chosen")).to_have_text("7 images")
    playwright.expect(page.get_by_role("button", name="Remove picture <b>4.png")).to_be_focused()
    playwright.expect(page.locator("#status")).to_contain_text("The draw was of other images")
    assert compare_button(page).is_disabled()
    page.set_input_files("#files", files[3])
    page.set_input_files("#split", str(tmp_path / "split.json"))
    playwright.expect(compare_button(page)).to_be_enabled()


def test_a_thumbnail_shows_what_pieces_are_cut_from(page: Any, tmp_path: Path) -> None:
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = 255
    Image.fromarray(wide).save(tmp_path / "wide.png")
    page.set_input_files("#files", str(tmp_path / "wide.png"))
    page.wait_for_selector("#thumbnails canvas")
    shown = page.eval_on_selector("#thumbnails canvas", "c => [...c.getContext('2d').getImageData(8, 8, 48, 48).data]")
    assert min(shown) == 255


@pytest.mark.parametrize(("key", "complaint"), [("wrong", "the key is not valid"), ("ä", "key")])
def test_a_wrong_key_is_one_sentence(page: Any, key: str, complaint: str) -> None:
    connect(page, key)
    playwright.expect(page.locator("#error")).to_contain_text(complaint)
    playwright.expect(page.locator("#error")).to_be_in_viewport(ratio=1)
    assert page.locator("#error").get_attribute("role") == "alert"


def test_after_a_wrong_key_nothing_of_the_good_one_is_left(
    page: Any, alice: str, files: list[str], tmp_path: Path
) -> None:
    connect(page, alice)
    page.set_input_files("#files", files)
    draw(page, tmp_path / "split.json")
    playwright.expect(compare_button(page)).to_be_enabled()
    connect(page, "wrong")
    playwright.expect(page.locator("#error")).to_contain_text("the key is not valid")
    playwright.expect(page.locator("#about")).to_have_text("")
    playwright.expect(page.locator("#plan")).to_have_text("")
    assert compare_button(page).is_disabled()
    assert page.get_by_role("button", name="Draw now and save the file").is_disabled()
    connect(page, alice)
    playwright.expect(compare_button(page)).to_be_enabled()


def test_an_address_that_browsers_do_not_trust_is_said_at_once(page: Any, live: Live) -> None:
    page.goto(f"http://elsewhere.test:{live.port}/")
    playwright.expect(page.locator("#error")).to_contain_text("https://, or on localhost")
    playwright.expect(page.locator("#error")).to_be_in_viewport(ratio=1)
    assert page.locator("input:enabled, button:enabled").count() == 0


def test_a_file_that_is_no_picture_is_named(page: Any, alice: str, tmp_path: Path) -> None:
    (tmp_path / "note.png").write_text("no picture")
    connect(page, alice)
    page.set_input_files("#files", str(tmp_path / "note.png"))
    playwright.expect(page.locator("#error")).to_contain_text("'note.png' is not a picture")


def test_too_small_a_budget_is_said_before_anything_is_spent(page: Any, live: Live, files: list[str]) -> None:
    poor = live.keys.add("poor", 20)
    connect(page, poor)
    page.set_input_files("#files", files)
    playwright.expect(page.locator("#plan")).to_contain_text("takes at least 32 queries, and 20 are left")
    assert page.get_by_role("button", name="Draw now and save the file").is_disabled()
    assert live.keys.find(poor).left == 20


def test_fewer_pieces_for_want_of_budget_are_said(page: Any, live: Live, files: list[str], tmp_path: Path) -> None:
    poor = live.keys.add("poor", 200)
    connect(page, poor)
    page.set_input_files("#files", files)
    playwright.expect(page.locator("#plan")).to_contain_text("takes 192 queries: 6 pairs")
    playwright.expect(page.locator("#plan")).to_contain_text("Better were 8 pairs, but only 200 queries are left")
    assert draw(page, tmp_path / "split.json")["view_pairs"] == 6
    compare(page)
    compare_button(page).click()
    playwright.expect(page.locator("#error")).to_contain_text("takes 96 queries, and 8 are left")
    assert page.locator("#verdict").is_visible()  # of the comparison that there was


def test_the_default_budget_is_enough_for_what_the_page_advises() -> None:
    from muc.cli.serve import AddKey

    default = next(field.default for field in fields(AddKey) if field.name == "budget")
    assert "better 40" in (PAGE / "index.html").read_text()
    assert default >= 2 * 2 * 8 * 40


def test_there_is_an_icon(page: Any, live: Live) -> None:
    path = page.locator("link[rel=icon]").get_attribute("href")
    with live.client() as client:
        assert client.get(f"/{path}").headers["content-type"] == "image/svg+xml"


def test_everything_can_be_reached_by_keyboard(page: Any) -> None:
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached == ["key", "Connect", "files", "withheld", "split"]  # what is disabled is passed over


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


ALIKE = [0.5, 0.6, 0.7]


@pytest.mark.parametrize(
    ("memory", "complaint"),
    [
        ('{"published": [0.5, 0.6, 0.7]}', "memory.withheld is not as expected"),
        ('{"published": [0.5, 0.6, 0.7], "withheld": [0.5, 0.6]}', "memory.withheld is not as expected"),
        ('{"published": [0.5, 0.6], "withheld": [0.5, 0.6, 0.7]}', "memory.published is not as expected"),
        (json.dumps({"published": ALIKE, "withheld": [0.5] * 61}), "memory.withheld is not as expected"),
        ('{"published": [0.5, 0.6, NaN], "withheld": [0.5, 0.6, 0.7]}', "memory.published.2 is not as expected"),
        ('{"published": [0.5, 0.6, 0.7], "withheld": [0.5, Infinity, 0.7]}', "memory.withheld.1 is not as expected"),
        ('{"published": [0.5, 0.6, 0.7], "withheld": [0.5, -1.1, 0.7]}', "memory.withheld.1 is not as expected"),
        ("[]", "memory is not as expected"),
    ],
)
def test_bad_memories_are_refused(live: Live, alice: str, memory: str, complaint: str) -> None:
    body = json.dumps({"gap": [[0.1] * 6] * 6, "forget": [True, False] * 3})[:-1] + f', "memory": {memory}}}'
    with live.client(alice) as client:
        answer = client.post("/v1/verdict", content=body)
    assert (answer.status_code, complaint in answer.json()["error"]) == (422, True), answer.text


def test_no_change_is_said_only_where_it_is_known_what_is_remembered(live: Live, alice: str) -> None:
    noise = np.random.default_rng(0).normal(0, 0.01, (20, 20))
    body = {"gap": ((noise + noise.T) / 2).tolist(), "forget": [True, False] * 10}
    memory = {"published": [0.7, 0.72, 0.74], "withheld": [0.3, 0.32, 0.34, 0.36]}
    with live.client(alice) as client:
        without, known, nothing = (
            client.post("/v1/verdict", json={**body, **more}).raise_for_status().json()
            for more in ({}, {"memory": memory}, {"memory": {"published": ALIKE, "withheld": ALIKE}})
        )
    assert (without["verdict"], without["memory"]) == ("inconclusive", None)
    assert known["verdict"] == "no change found"
    assert known["memory"]["value"] == pytest.approx(0.39)
    assert known["memory"]["low"] < 0.39 < known["memory"]["high"]
    assert (nothing["verdict"], nothing["memory"]["value"]) == ("inconclusive", 0)


def test_the_body_of_a_verdict_is_described_without_references(live: Live) -> None:
    with live.client() as client:
        described = client.get("/openapi.json").json()
    body = described["paths"]["/v1/verdict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "$" not in json.dumps(body)
    withheld = body["properties"]["memory"]["anyOf"][0]["properties"]["withheld"]
    assert (withheld["minItems"], withheld["maxItems"], withheld["items"]["maximum"]) == (3, 60, 1)
    assert "memory" not in body["required"]


def test_a_slow_matrix_is_cut_off(live: Live, alice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from muc.serve import judging

    monkeypatch.setattr(judging, "BODY_SECONDS", 0.5)

    def slowly() -> Generator[bytes]:
        yield b"{"
        time.sleep(1.5)
        yield b"}"

    with live.client(alice) as client:
        assert client.post("/v1/verdict", content=slowly()).status_code == 408
