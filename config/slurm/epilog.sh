#!/bin/sh
# Epilog of slurmd: takes the job off the GPUs that prolog.sh put it on, and tells its user what it did
# with them. RIGHTSIZER_JOB_REPORT says where to:
#   output  at the end of the job's own output (as shipped)
#   mail    to the job's user, with mail(1)
#   log     into the system's log
#   none    nowhere
#
# It always succeeds: an epilog that fails drains its node.

PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
folder=${RIGHTSIZER_JOB_MAP:-/run/rightsizer-jobs}
rightsizer=${RIGHTSIZER_COMMAND:-rightsizer}
configuration=${RIGHTSIZER_CONFIGURATION:-/etc/rightsizer/rightsizer.yaml}
destination=${RIGHTSIZER_JOB_REPORT:-output}
job=${SLURM_JOB_ID:-}
user=${SLURM_JOB_USER:-}
# The agent is another user, and reads what stays.
umask 022

case $job in
'' | *[!0-9]*) exit 0 ;;
esac

# What belongs to the user is written as the user: root would follow any link.
as_user() {
    if [ "$(id -u)" -eq 0 ]; then
        runuser -u "$user" -- "$@"
    else
        "$@"
    fi
}

forget() {
    [ -d "$folder" ] || return 0
    (
        flock 9
        for file in "$folder"/*; do
            grep -qxF -- "$job" "$file" 2>/dev/null || continue
            if grep -vxF -- "$job" "$file" >"$folder/.rest"; then
                mv -f "$folder/.rest" "$file"
            else
                rm -f "$file" "$folder/.rest"
            fi
        done
    ) 9>"$folder/.lock"
}

report() {
    set -- job-report "$job"
    [ -r "$configuration" ] && set -- "$@" --config.file "$configuration"
    # A job without GPUs has no report.
    text=$(timeout 20 "$rightsizer" "$@" 2>/dev/null) || return 0
    case $destination in
    output)
        # Interactive jobs have no such file. The quotes are for the shell that the user's rights get.
        # shellcheck disable=SC2016
        printf '\n%s\n' "$text" |
            as_user sh -c '[ -f "$1" ] && exec cat >>"$1"' sh "${SLURM_JOB_STDOUT:-}"
        ;;
    mail) printf '%s\n' "$text" | mail -s "GPU use of job $job" "$user" ;;
    log) printf '%s\n' "$text" | logger -t rightsizer-job ;;
    esac
}

[ "$destination" = none ] || report
forget
exit 0
