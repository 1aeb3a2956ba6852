"""The kernel's stall figures."""

from pathlib import Path

from trainer.pressure import StallShare

LINE = "some avg10={} avg60=0.11 avg300=0.16 total=3065058\nfull avg10=0.00 avg60=0.11\n"


def test_the_share_is_read_once_a_second(tmp_path: Path) -> None:
    now_s = [0.0]
    share = StallShare("io", tmp_path, lambda: now_s[0])
    (tmp_path / "io").write_text(LINE.format("12.50"))
    assert share.read() == 0.125
    (tmp_path / "io").write_text(LINE.format("50.00"))
    now_s[0] = 0.9
    assert share.read() == 0.125
    now_s[0] = 1.0
    assert share.read() == 0.5


def test_a_kernel_that_keeps_no_figures_leaves_it_unknown(tmp_path: Path) -> None:
    assert StallShare("io", tmp_path).read() is None
    (tmp_path / "io").write_text("")
    assert StallShare("io", tmp_path).read() is None
