"""Memory bound by nvidia-smi: what is left out is told by what is not."""

from evaluation.hardware.memory_bound import COLUMNS, Log, evaluate, fitted, nvidia_smi_logs
from evaluation.options import Options


def log(program: str, **values: float) -> Log:
    """A log with medians of columns."""
    return Log("h100", program, values, is_suspected=False)


def test_the_widest_gap_is_chosen_in_its_direction() -> None:
    """Memory limits what is below a threshold, too."""
    logs = [
        log("decode", controller=0.9, power=0.2),
        log("float32_product", controller=0.8, power=0.9),
    ]
    threshold = fitted(logs, ["controller", "power"])
    assert (threshold.column, threshold.is_above) == ("power", False)
    assert all(map(threshold.is_right, logs))
    assert not threshold.is_right(log("decode", power=0.8))


def test_the_memory_controller_tells_programs_and_boards_that_were_left_out() -> None:
    """Two boards, seven programs, two tools."""
    logs = nvidia_smi_logs()
    assert len(logs) == 28
    for part in {(log.board, log.program) for log in logs}:
        others = [log for log in logs if log.board != part[0] and log.program != part[1]]
        assert all(
            fitted(others, COLUMNS).is_right(log)
            for log in logs
            if (log.board, log.program) == part
        )


def test_the_product_suspects_memory_where_it_limits() -> None:
    """For most of the time, in each log."""
    assert [log for log in nvidia_smi_logs() if log.is_suspected is not log.is_bound] == []
    assert "28 of 28" in "\n".join(evaluate(Options()))
