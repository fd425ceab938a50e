/**
 * References of container images: `registry/path:tag@sha256:…`. The host is always written out: a reference
 * without one means another image on each engine, and pulling it is a request that the engine sends there.
 */

export interface ImageReference {
  /** With the port, as it is written; lower case. */
  readonly registry: string
  readonly repository: string
  readonly tag: string | undefined
  /** `sha256:` and 64 hex digits. */
  readonly digest: string | undefined
}

const host = '[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::\\d{1,5})?'
const part = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*'
const tagAndDigest = '(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?'
const form = new RegExp(`^(${host})/(${part}(?:/${part})*)${tagAndDigest}$`)

/** Undefined: it is not a reference with the host of its registry. */
export function parseImage(text: string): ImageReference | undefined {
  const [, registry, repository, tag, digest] = text.length <= 512 ? (form.exec(text) ?? []) : []
  if (registry === undefined || repository === undefined || !isHost(registry)) return undefined
  return { registry, repository, tag, digest }
}

/** What an engine takes for a host, and not for the beginning of a path. */
const isHost = (registry: string): boolean => registry === 'localhost' || /[.:]/.test(registry)

/** Why it may not be the image of a job, with the fix; undefined where it may. */
export function imageFault(text: string): string | undefined {
  const image = parseImage(text)
  if (image === undefined) {
    return (
      'is not an image with the host of its registry; write it like docker.io/library/busybox:1.36 or ' +
      'registry.example.com/team/app@sha256:…'
    )
  }
  const port = /:(\d+)$/.exec(image.registry)?.[1]
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))
    return 'names a port that is none; write one from 1 to 65535'
  const name = image.registry.replace(/:\d+$/, '')
  if (/^[\d.]+$/.test(name) || name.startsWith('0x') || /(?:^|\.)(?:0x[0-9a-f]+|\d+)$/.test(name))
    return 'names its registry by an address; use the name of the host'
  if (/^(?:metadata|metadata\.google\.internal|instance-data)$/.test(name))
    return 'names a metadata service as its registry; use that of the image'
  return undefined
}

const patternForm =
  /^([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::\d{1,5})?)\/((?:[a-z0-9._-]+\/)*)(\*|[a-z0-9._-]+)$/

/** Why a text is no pattern of images: `registry/path`, or `registry/path/*` for all below it. */
export const imagePatternFault = (text: string): string | undefined =>
  text.length <= 512 && patternForm.test(text)
    ? undefined
    : 'is not a registry with a path; write it like registry.example.com/team/* or docker.io/library/busybox'
