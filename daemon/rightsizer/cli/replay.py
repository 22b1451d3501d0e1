"""Command `rightsizer replay`: accounts and advice from a recording."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rightsizer.advice.engine import actionable
from rightsizer.agent.replay import DeviceSummary, Replay, filled_history, replay, replay_document
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.console.advice import add_verbose_flag, finding_line, no_verdict
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import add_config_flag, settings_of, whole_number
from rightsizer.console.progress import ProgressLine
from rightsizer.io.files import is_there
from rightsizer.io.garbage import seldom_collected
from rightsizer.io.log import configure as configure_log
from rightsizer.io.log_settings import LogLevel
from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    BY_INDEX,
    NANOSECONDS_PER_SECOND,
    EvidenceKind,
    HistoryError,
    Signal,
    UsageError,
    format_duration,
    percent_text,
    seconds,
    weightiest,
)
from rightsizer.recordings.source import open_recording
from rightsizer.recordings.text_file import no_progress
from rightsizer.recordings.unnamed_devices import StatedDevices
from rightsizer.report.blocks import Block, Items, Section, section
from rightsizer.report.labels import display_name, first_names, readable_name, unknown_parts
from rightsizer.report.timeline import Timeline

_HELP: Final = help_of(__file__)
_STATES_SHOWN = 4
_EVIDENCE_SHOWN: Final = 3
_NAMED: Final = 3
_SPARSE: Final = 10 * NANOSECONDS_PER_SECOND
"""Utilization covers at most a second; sparser readings stand for more."""


def replay_blocks(result: Replay, *, is_verbose: bool = False) -> Iterator[Block]:
    """Yield a few lines per device, findings, and their count; abstentions only if verbose."""
    yield from map(_device, result.devices)
    findings = actionable(result.findings)
    start, end = result.span
    span_seconds = seconds(end - start)
    length = format_duration(span_seconds)
    if (coverage := result.coverage_ratio) < 1.0:
        yield (f"Of the span of {length} {coverage:.1%} is known of all of them together.")
    if result.interval >= _SPARSE:
        interval = format_duration(seconds(result.interval))
        yield (f"One reading every {interval}: shorter pauses and peaks are seen by chance.")
    # Caveats stand below their device.
    caveats = {caveat for summary in result.devices for caveat in summary.caveats}
    weighty = [
        evidence
        for evidence in result.evidence
        if evidence.kind in (EvidenceKind.ASSUMED, EvidenceKind.DROPPED)
        and evidence.effect
        and evidence.effect not in caveats
    ]
    yield Items(tuple(evidence.text for evidence in weightiest(weighty, _EVIDENCE_SHOWN)))
    # What is true of the end of a recording need not be of all of it, and is advised all the same.
    finding_ids = {finding.id for finding in findings}
    later = [
        advice.finding
        for advice in result.advice
        if advice.is_open and advice.id not in finding_ids
    ]
    yield Items(tuple(map(finding_line, (*findings, *later))))
    yield no_verdict(result.findings, is_verbose=is_verbose)
    # A longer recording with as many missing readings would not help.
    needed = {rule: time for rule, time in result.needed_seconds.items() if time > span_seconds}
    if needed:
        takes = "; ".join(_needs(needed))
        yield f"The recording covers {length}, and advice takes longer: {takes}."
    yield (
        f"{counted(len(findings), 'finding')}; "
        f"{counted(len(result.advice), 'recommendation')} opened, "
        f"{sum(advice.is_open for advice in result.advice)} still open at the end."
    )


def _needs(needed_seconds: Mapping[str, float]) -> Iterator[str]:
    """Yield rules that take as long, shortest first."""
    for length in sorted(set(needed_seconds.values())):
        rules = [readable_name(rule) for rule, needed in needed_seconds.items() if needed == length]
        yield f"{first_names(rules, _NAMED)} from {format_duration(length)} on"


def _device(summary: DeviceSummary) -> Section:
    device = summary.device
    length = format_duration(seconds(summary.window.accounted))
    name = f"GPU {device.index}" if device.uuid == f"{BY_INDEX}{device.index}" else device.uuid
    title = f"{name} · {device.name or 'unknown board'} · {length} · {summary.window.tier} tier"
    return section(title, *_device_lines(summary))


def _device_lines(summary: DeviceSummary) -> Iterator[str]:
    window = summary.window
    fit = summary.provisioning
    accounted = window.accounted
    if not accounted:
        yield "nothing to account for: a single reading has no length"
        return
    longest = sorted(window.states.items(), key=lambda item: -item[1])[:_STATES_SHOWN]
    shares = ", ".join(f"{display_name(state)} {time / accounted:.1%}" for state, time in longest)
    yield shares
    yield from _use_lines(summary)
    for why, time in unknown_parts(window.unknown_reasons):
        yield f"unknown {time / accounted:.1%}: {why}"
    yield from summary.caveats
    if fit.overprovisioned is not None:
        yield f"{percent_text(fit.overprovisioned)} over-provisioned by the largest need"


def _use_lines(summary: DeviceSummary) -> Iterator[str]:
    """Yield how much of the GPU was used: productive time need not use all of it."""
    window = summary.window
    totals = summary.totals
    used = window.effective_utilization
    headroom = window.headroom_ratio
    if used is None or headroom is None:
        return
    parts = [f"effective utilization {used:.1%}", f"headroom {headroom:.1%}"]
    if (busy := totals.distributions.get(Signal.GPU_BUSY)) is not None and busy.total:
        mean = totals.signal_seconds[Signal.GPU_BUSY] * NANOSECONDS_PER_SECOND / busy.total
        parts.append(f"busy {mean:.1%} on average")
    yield ", ".join(parts)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="files of a recording")
    add_flags(
        parser.add_argument,
        _HELP["flags"],
        columns=Path,
        timeline=Path,
        into=Path,
        devices=whole_number,
        job={"action": "append"},
    )
    add_verbose_flag(parser)
    add_format_flag(parser, "times in seconds")
    add_config_flag(parser)


@seldom_collected()
def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, Settings)
    configure_log(settings.log.format, LogLevel.WARNING)
    _check_outputs(arguments)
    if arguments.device is not None and arguments.devices not in (None, 1):
        fault = "names the only GPU, and --devices says there are more; drop one"
        raise UsageError(f"--device: {fault}")
    with contextlib.ExitStack() as stack:
        shows = sys.stderr.isatty() and not arguments.no_progress
        source = open_recording(
            arguments.files,
            catalogue=built_in(),
            board=arguments.board,
            columns=arguments.columns,
            stated=StatedDevices(arguments.devices, arguments.device),
            fields=arguments.fields,
            jobs=arguments.job or (),
            progress=stack.enter_context(ProgressLine(sys.stderr)) if shows else no_progress,
        )
        stack.callback(source.close)
        file = arguments.timeline
        history = arguments.into
        sinks = [stack.enter_context(Timeline.open(file)).write] if file is not None else []
        into = None if history is None else stack.enter_context(filled_history(history))
        result = replay(source, settings, sinks=sinks, into=into, evidence=source.evidence)
        warnings = source.warnings
    for warning in warnings:
        print(f"rightsizer: warning: {warning}", file=sys.stderr)
    blocks = replay_blocks(result, is_verbose=arguments.verbose)
    show(arguments, "Replay", replay_document(result), blocks)
    return 0


def _check_outputs(arguments: argparse.Namespace) -> None:
    inputs = {file.resolve() for file in arguments.files}
    for flag, output in (("--timeline", arguments.timeline), ("--into", arguments.into)):
        if output is not None and output.resolve() in inputs:
            raise UsageError(f"{flag} {output}: is a file of the recording; name another")
    into = arguments.into
    # The agent creates its own folder; a mistyped one must not be created.
    if into is not None and not is_there(into.parent):
        fault = f"history '{into}' cannot be written: there is no folder '{into.parent}'"
        raise HistoryError(f"{fault}; make it, or name another")


COMMAND = Command("replay", _configure, _run, _HELP["description"])
