"""Episodes with tapes are played in `tune-media watch` on a click; other pages say which command makes the clip."""

import shlex
import time

import pytest
from werkzeug.test import Client

import tune_media as tm
from tests.support.browser import opened, served, viewer_page
from tests.support.commands import command
from tests.support.stores import StoredTrial
from tests.support.taped import STEPS, taped_clip
from tests.support.viewing import moving_bar, write_run
from tune_media.encoding.decode import decode_video
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.storage.entry import ONLY_TAPE, MediaEntry, line_of
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.viewing.tape_player import TapePlayer
from tune_media.viewing.web import ViewerApp

TOKEN = "M6A4QG-7gJkhoy7hHHa_eg"
CLICK = {"X-Tune-Media": TOKEN}


@pytest.fixture
def experiment(tmp_path):
    """A trial of two episodes without clips; the env of the second does not repeat itself. One older clip is there."""
    store = StoredTrial.in_folder(write_run(tmp_path / "sweep" / "trial", {}))
    clips = [taped_clip(3, episode_return=2.0), taped_clip(3, episode_return=1.0, drawn=True)]
    episodes = tuple(EpisodeData(one.episode, tape=one.tape, recipe=one.recipe.hash) for one in clips)
    batch = EpisodeBatch(episodes, recipes={one.recipe.hash: one.recipe.content for one in clips})
    store.add(batch, "evaluation", "episodes/data", 7)
    entry = MediaEntry(clips[0], "evaluation", "episodes/best", "media/not-there.mp4", 7, 7, time.time())
    store.lines.append(line_of(entry, "id_trial", 9, ONLY_TAPE, clips[0].facts()))
    older = tm.Video(moving_bar(5), fps=10, episode=tm.EpisodeRecord("older", 0.0, 5))
    store.add(older, "evaluation", "episodes/worst", 3)
    entry = MediaEntry(clips[0], "evaluation", "episodes/worst", "media/nor-there.mp4", 7, 7, time.time())
    store.lines.append(line_of(entry, "id_trial", 9, ONLY_TAPE, clips[0].facts()))
    store.finish()
    return tmp_path / "sweep"


def client_of(experiment, player=None):
    return Client(ViewerApp(Trials([LogDirectory.of(str(experiment))]), "sweep", player))


def wanted(client):
    """Return what a click on each episode asks for, the best episode first."""
    (trial,) = client.get("/data/index.json").json["trials"]
    found = client.get("/data/episodes.json", query_string={"sort": "return", "descending": 1}).json
    at = found["columns"].index("episode_id")
    return [
        {"trial": trial["id"], "report": place[2], "episode": row[at]}
        for row, place in zip(found["rows"], found["places"], strict=True)
    ]


def played(client, what):
    assert client.get("/data/played.json", query_string=what).json == {}
    name = client.post("/data/play.json", query_string=what, headers=CLICK).json["name"]
    while True:
        state = client.get("/data/played.json", query_string=what).json
        assert state["name"] == name
        if state["problem"] or state["views"]:
            return name, state
        time.sleep(0.05)


def test_a_click_renders_an_episode_and_what_cannot_be_played_says_why(experiment):
    client = client_of(experiment, TapePlayer(TOKEN))
    good, other = wanted(client)
    name, state = played(client, good)
    shape = {"frames": STEPS + 1, "fps": 5, "stride": 1, "width": 32, "height": 32}
    assert (state["views"], state["problem"]) == ([{"name": "", "note": None, **shape}], None)
    frames = list(decode_video(client.get(f"/played/{name}/0.mp4").data))
    assert len(frames) == STEPS + 1
    assert abs(frames[-1].mean() - 20 * 3 * STEPS) < 4
    part = client.get(f"/played/{name}/0.mp4", headers={"Range": "bytes=0-1"})  # as Safari asks before it plays
    assert (part.status_code, len(part.data), part.headers["Accept-Ranges"]) == (206, 2, "bytes")
    assert client.get(f"/played/{name}/0.mp4", headers={"Range": "bytes=99999999-"}).status_code == 416
    assert client.get(f"/played/{name}/1.mp4").status_code == 404
    assert "at the reset, the replay has another observation" in played(client, other)[1]["problem"]


def test_code_runs_on_a_click_of_the_own_page_only(experiment):
    client = client_of(experiment, TapePlayer(TOKEN))
    what = wanted(client)[0]
    assert client.post("/data/play.json", query_string=what).status_code == 403  # as a form of another site would
    for guess in ("play", "", TOKEN[:-1], "\xe9"):  # by another user of this machine
        refused = client.post("/data/play.json", query_string=what, headers={"X-Tune-Media": guess})
        assert (refused.status_code, "address that `tune-media watch` printed" in refused.text) == (403, True)
    assert client.get("/data/played.json", query_string=what).json == {}
    assert client.get("/data/play.json", query_string=what, headers=CLICK).status_code == 404
    elsewhere = {**what, "report": "../../etc/passwd"}
    assert client.post("/data/play.json", query_string=elsewhere, headers=CLICK).status_code == 404
    other = client_of(experiment)  # TensorBoard, or a server that is open to other machines
    assert (client.get("/data/index.json").json["plays"], other.get("/data/first.json").json["plays"]) == (True, False)
    assert other.post("/data/play.json", query_string=what, headers=CLICK).status_code == 403
    assert other.get("/data/tape.json", query_string=what).json["series"] == {"reward": [1.0] * STEPS}  # nothing runs
    assert other.get("/data/tape.json", query_string=elsewhere).status_code == 404


def test_a_tape_opens_in_the_view_of_a_clip(browser, experiment, tmp_path):
    with opened(browser, experiment, tmp_path, f"token={TOKEN}", token=TOKEN) as viewer:
        for button in (".screen button.tape", ".facts button.tape"):  # without a clip, and with an older one
            viewer.frame.click(f".card {button}")
            viewer.wait("document.querySelector('.stage video')?.readyState >= 2")
            viewer.page.go_back()
            viewer.wait("document.querySelector('.card')")
            viewer.press("k")
        viewer.open(viewer.url, "view=episodes&order=episode_return&orderDown=true")
        viewer.wait("document.querySelectorAll('button.tape').length === 2")
        viewer.frame.click("tr:nth-child(1) button.tape")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2")
        viewer.wait("document.querySelector('.inside .u-over')")
        assert viewer.all(".under b")[-1] == "2"  # its return
        assert viewer.all(".series-head .chip[aria-pressed=true]") == ["reward", "action", "return so far"]
        viewer.frame.evaluate("tuneMedia.app.instance.group.pause()")
        viewer.press(",")
        viewer.wait("document.querySelectorAll('.moment').length > 0")
        viewer.press("x")
        viewer.wait("document.querySelectorAll('.tray .chip').length === 1")
        viewer.frame.evaluate("tuneMedia.app.instance.copyLink()")
        viewer.wait("document.querySelector('.toast').innerText")
        address = viewer.page.url
        assert "#view=clip" in address  # and no token
        viewer.page.go_back()
        viewer.wait("document.querySelectorAll('tr:nth-child(2) button.tape').length === 1")
        viewer.frame.click("tr:nth-child(2) button.tape")
        viewer.wait("document.querySelector('.stage .problem')?.innerText.includes('another observation')")
        viewer.wait("document.querySelector('.inside .u-over')")  # what is on the tape is there all the same
        viewer.open(address)
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2")  # it was played, and is still there


def test_a_link_to_a_tape_runs_no_code_before_a_click(browser, experiment, tmp_path):
    (trial,) = Trials([LogDirectory.of(str(experiment))]).all()
    (report,) = [path for path in trial.report_files if path.endswith("7.json")]
    with served("watch", experiment, tmp_path, TOKEN) as url, viewer_page(browser, "watch") as viewer:
        posts = []
        viewer.page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
        viewer.open(url, "view=episodes&order=episode_return&orderDown=true")
        viewer.wait("document.querySelectorAll('button.tape').length === 2")
        best = viewer.frame.evaluate("tuneMedia.app.instance.source.episodes({ sort: 'return', descending: 1 })")
        id = best["rows"][0][best["columns"].index("episode_id")]
        shown = f"view=clip&trial=trial&key=episodes/worst&clip=tape/0/{id}/{report}"
        viewer.open(url, shown)
        viewer.wait("document.querySelector('.inside .u-over')")
        assert viewer.all(".untaped p")[0].startswith(
            "Only a page at the address that tune-media watch printed plays it"
        )
        assert viewer.all(".tape-play") == []
        viewer.page.goto(f"{url}#token={TOKEN}&{shown}")  # pasted into the same tab, which loads nothing
        viewer.wait("document.querySelector('.tape-play')")
        assert viewer.page.url.startswith(f"{url}#view=clip&")
        assert (viewer.all(".stage video"), posts) == ([], [])
        assert viewer.all(".step-shown") == ["step 7"]
        assert viewer.axe_violations() == {}
        viewer.frame.click(".tape-play")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2")
        assert len(posts) == 1
        viewer.frame.evaluate("sessionStorage.token = 'of a server that has ended'")
        viewer.frame.evaluate(
            "const { tapes } = tuneMedia.app.instance; const [tape] = tapes.held.values();"
            " tapes.change(tape, { played: null }); tapes.play(tape)"
        )
        viewer.wait("document.querySelector('.stage .problem')?.innerText.includes('Open the address that')")
        viewer.press("ArrowLeft")  # the clip before it
        viewer.wait("tuneMedia.app.instance.clip.path.endsWith('.mp4') && tuneMedia.app.instance.clip.step === 3")
        (refused,) = viewer.errors
        assert "403" in refused


def test_a_page_that_cannot_play_tapes_says_which_command_makes_the_clip(browser, experiment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the clip goes to a folder here
    with opened(browser, experiment, tmp_path, host="gallery") as viewer:
        said = command_of(viewer, ".card button.tape")
        assert not viewer.errors
    program, *arguments = shlex.split(said.replace("path/to/sweep", str(experiment)))
    assert program == "tune-media"
    command(*arguments)


def command_of(viewer, button):
    viewer.frame.click(button)
    viewer.wait("() => document.querySelector('dialog .command')")
    said = viewer.frame.inner_text("dialog .command")
    viewer.press("Escape")
    viewer.wait("() => !document.querySelector('dialog')")
    return said
