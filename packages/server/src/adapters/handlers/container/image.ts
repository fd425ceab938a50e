/**
 * The image of a run on an engine: that it is there, or is fetched from its registry where the operator lets
 * it (by the credentials that the engine has by itself), and what it asks for beside the job.
 */
import { parseImage } from '@belfry/contract'
import type { ContainerPlan } from '../../../ports/container-backend.ts'
import { type EngineClient, EngineError } from './engine-client.ts'

const pullMs = 600_000

/**
 * Paths for which the image wants volumes. Whoever makes an image decides about them, so a path that could
 * be anything else is refused.
 */
export async function imageVolumes(
  engine: EngineClient,
  { image, pull, tmpfs }: ContainerPlan,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = await findImage(engine, image).catch(async (error: unknown) => {
    if (!pull || !(error instanceof EngineError) || error.status !== 404) throw error
    await pullImage(engine, image, signal)
    return findImage(engine, image)
  })
  const own = new Set(tmpfs.map(([path]) => path))
  const paths = Object.keys(found.Config?.Volumes ?? {}).filter((path) => !own.has(path))
  const odd = paths.find((path) => !isPlain(path))
  if (odd === undefined) return paths
  throw new EngineError(`The image wants a volume at "${odd.slice(0, 100)}", which no container gets.`, 400)
}

interface Image {
  readonly Config?: { readonly Volumes?: Readonly<Record<string, unknown>> | null } | null
}

const findImage = async (engine: EngineClient, image: string): Promise<Image> =>
  (await engine.call('GET', `/images/${image}/json`)) as Image

const isPlain = (path: string): boolean =>
  /^(?:\/[A-Za-z0-9_.-]{1,100}){1,10}$/.test(path) &&
  !/^\/(?:proc|sys|dev|belfry|etc)(?:\/|$)|\/\.\.?(?:\/|$)/.test(path)

async function pullImage(engine: EngineClient, image: string, signal: AbortSignal): Promise<void> {
  const parsed = parseImage(image)
  if (parsed === undefined) throw new EngineError(`"${image}" names no image with its registry.`, 400)
  const { registry, repository, tag, digest } = parsed
  const answer = await engine.call('POST', '/images/create', {
    query: { fromImage: `${registry}/${repository}`, tag: digest ?? tag ?? 'latest' },
    timeoutMs: pullMs,
    signal,
  })
  // an engine answers 200 before it begins, and says in its last line how it went
  if (typeof answer !== 'object' || answer === null || !('error' in answer)) return
  throw new EngineError(`The image could not be pulled: ${String(answer.error).slice(0, 300)}`, 404)
}
