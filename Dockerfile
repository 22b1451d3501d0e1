# Rightsizer as an image. It needs the devices of the host's driver, and nothing else of the host:
#   docker run --runtime=nvidia -p 19400:19400 -v rightsizer:/var/lib/rightsizer rightsizer

FROM python:3.12-slim AS build
WORKDIR /source
RUN python -m venv /opt/rightsizer
COPY constraints.txt ./
COPY pyproject.toml README.md LICENSE ./
COPY daemon ./daemon
RUN /opt/rightsizer/bin/pip install --no-cache-dir --no-compile --constraint constraints.txt . \
    && /opt/rightsizer/bin/pip uninstall --yes pip

FROM python:3.12-slim
LABEL org.opencontainers.image.title="rightsizer" \
      org.opencontainers.image.description="Accounts for every second of every GPU and says what size it should have been." \
      org.opencontainers.image.licenses="Apache-2.0"

# The NVIDIA runtime hands in the driver's library and its devices; NVML needs no more than `utility`.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=utility \
    PATH=/opt/rightsizer/bin:$PATH \
    PYTHONUNBUFFERED=1

RUN groupadd --system --gid 19400 rightsizer \
    && useradd --system --uid 19400 --gid rightsizer --no-create-home --shell /usr/sbin/nologin rightsizer \
    && install --directory --owner=rightsizer --group=rightsizer --mode=0750 /var/lib/rightsizer /etc/rightsizer /run/rightsizer
COPY --from=build /opt/rightsizer /opt/rightsizer

USER 19400:19400
WORKDIR /var/lib/rightsizer
VOLUME /var/lib/rightsizer
EXPOSE 19400

# Healthy is alive; whether samples flow is a matter of /-/ready, and no reason to be restarted.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:19400/-/healthy', timeout=4)"]

STOPSIGNAL SIGTERM
ENTRYPOINT ["rightsizer"]
CMD ["agent"]
