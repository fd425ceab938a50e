/**
 * What of ours stands on an engine: names, by which each lease has its own things, and labels, by which they
 * are found again and removed.
 */
import type { HeldName } from '../../../ports/worker-store.ts'
import { holderName, labels, nameOf } from './create-call.ts'
import { type EngineClient, EngineError } from './engine-client.ts'

const removeMs = 60_000

export interface EngineItem {
  readonly kind: 'container' | 'volume'
  readonly name: string
  readonly run: HeldName
  readonly sessionId: string
}

interface Listed {
  readonly Id?: string
  readonly Names?: readonly string[]
  readonly Name?: string
  readonly Labels?: Readonly<Record<string, string>> | null
}

/**
 * Containers of an installation, running or not; of one run where it is said. Holders of networks come last:
 * Podman removes none whose network is in use.
 */
export async function containersOn(
  engine: EngineClient,
  installation: string,
  runId?: string,
): Promise<readonly EngineItem[]> {
  const label = [`${labels.installation}=${installation}`]
  if (runId !== undefined) label.push(`${labels.run}=${runId}`)
  const query = { all: '1', filters: JSON.stringify({ label }) }
  const found = (await engine.call('GET', '/containers/json', { query })) as Listed[]
  const named = (nameFor: typeof nameOf): readonly EngineItem[] =>
    found.flatMap(({ Id, Names, Labels }) => {
      const item = itemOf('container', Id, Labels)
      // an image may have labels too, and what is made of it elsewhere has them: names are ours
      const isOurs =
        item !== undefined && Names?.some((each) => each.replace(/^\//, '') === nameFor(item.run))
      return isOurs ? [item] : []
    })
  return [...named(nameOf), ...named(holderName)]
}

export async function volumesOn(engine: EngineClient, installation: string): Promise<readonly EngineItem[]> {
  const filters = JSON.stringify({ label: [`${labels.installation}=${installation}`] })
  const found = (await engine.call('GET', '/volumes', { query: { filters } })) as {
    Volumes?: Listed[] | null
  }
  return (found.Volumes ?? []).flatMap(({ Name, Labels }) => itemOf('volume', Name, Labels) ?? [])
}

function itemOf(
  kind: EngineItem['kind'],
  name: string | undefined,
  said: Listed['Labels'],
): EngineItem | undefined {
  const [runId, sessionId] = [said?.[labels.run], said?.[labels.session]]
  const leaseEpoch = Number(said?.[labels.epoch])
  if (
    name === undefined ||
    runId === undefined ||
    sessionId === undefined ||
    !Number.isSafeInteger(leaseEpoch)
  )
    return undefined
  return { kind, name, run: { runId, leaseEpoch }, sessionId }
}

export async function removeItem(
  engine: EngineClient,
  { kind, name }: Pick<EngineItem, 'kind' | 'name'>,
): Promise<void> {
  const [path, query] =
    kind === 'container'
      ? [`/containers/${name}`, { force: '1', v: '1' }]
      : [`/volumes/${name}`, { force: '1' }]
  try {
    await engine.call('DELETE', path, { query, timeoutMs: removeMs })
  } catch (error) {
    if (!(error instanceof EngineError) || error.status !== 404) throw error
  }
}
