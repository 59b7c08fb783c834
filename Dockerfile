# The image of wsbouncer: the program, its settings, and the certificates of public authorities. `make image` builds it; it needs no
# other image, and no network. Releases are built with it, too (.goreleaser.yaml). docs/containers.md describes the image.
#
# The build context is made by `make image-context` and by goreleaser: the program in a folder per platform (linux/amd64), and
# generated/rootfs, the other files (deploy/generate).
FROM scratch
ARG TARGETPLATFORM

COPY generated/rootfs/etc /etc
COPY --chown=65532:65532 generated/rootfs/var /var
COPY ${TARGETPLATFORM}/wsbouncer /usr/bin/wsbouncer

# WSBOUNCER_SETTINGS: the settings of the image; mount a file over it, or override single ones by environment or flags.
# STATE_DIRECTORY: where the state is, unless the settings say otherwise.
ENV PATH=/usr/bin \
    WSBOUNCER_SETTINGS=/etc/wsbouncer/wsbouncer.yaml \
    STATE_DIRECTORY=/var/lib/wsbouncer

USER 65532:65532
VOLUME /var/lib/wsbouncer
EXPOSE 8080
ENTRYPOINT ["/usr/bin/wsbouncer"]
CMD ["serve"]
