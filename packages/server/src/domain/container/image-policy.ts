/**
 * Which images a tenant may use: a list of patterns by the operator, by default an empty one. Pure; asked
 * when a job is saved and again when a run begins, so that taking an image off the list stops its runs too.
 */
import { parseImage } from '@belfry/contract'

export interface ImagePolicy {
  /** `registry/path`, or `registry/path/*` for all below it. */
  readonly images: readonly string[]
  readonly requireDigest: boolean
}

const isUnder = (name: string, pattern: string): boolean =>
  pattern.endsWith('/*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern

/** Why an image may not be used, with the fix; undefined where it may. */
export function imageDenied(image: string, { images, requireDigest }: ImagePolicy): string | undefined {
  const parsed = parseImage(image)
  if (parsed === undefined) return 'is not an image with the host of its registry'
  const name = `${parsed.registry}/${parsed.repository}`
  if (images.length === 0)
    return 'is not allowed, as no image is; ask the operator to list it (setting containerImages)'
  if (!images.some((pattern) => isUnder(name, pattern)))
    return `is not on the list of images (${shown(images)}); use one of these, or ask the operator to add it`
  if (requireDigest && parsed.digest === undefined)
    return 'must be named by its digest; write it like registry.example.com/app@sha256:…'
  return undefined
}

const mostShown = 8
const shown = (images: readonly string[]): string =>
  images.length <= mostShown
    ? images.join(', ')
    : `${images.slice(0, mostShown).join(', ')} and ${images.length - mostShown} more`
