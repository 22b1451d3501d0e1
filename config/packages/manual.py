"""The manual page of the command, from what the command says of itself.

A test holds rightsizer.8 beside this file against it; `make golden` writes it.
"""  # noqa: INP001

from rightsizer.cli.main import COMMANDS


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")


def manual() -> str:
    """The page in roff."""
    commands = "".join(
        f".TP\n.B {_escaped(command.name)}\n{_escaped(command.summary)}\n" for command in COMMANDS
    )
    return f"""\
.TH RIGHTSIZER 8 "" "rightsizer" "System administration"
.SH NAME
rightsizer \\- account for every second of every GPU and say what size it should be
.SH SYNOPSIS
.B rightsizer
.I COMMAND
.RB [ \\-\\-help ]
.SH COMMANDS
{commands}.SH EXIT STATUS
0 done, 1 failed, 2 usage, 78 bad configuration.
.SH FILES
.TP
.I /etc/rightsizer/rightsizer.yaml
the configuration, which begins with a screenful; drop\\-ins are in conf.d beside it
.TP
.I /var/lib/rightsizer
the history
.TP
.I /run/rightsizer/api.sock
where commands on this machine reach the agent
.TP
.I /usr/share/rightsizer
drop\\-ins for the unit, rules for Prometheus, dashboards for Grafana, a collector's configuration
.SH SEE ALSO
.BR systemctl (1),
.BR nvidia\\-smi (1)
"""


if __name__ == "__main__":
    print(manual(), end="")  # noqa: T201 - its output is the page.
