// The container handler on a real engine, with a log in memory and a policy of the test. `leftovers` must be
// empty after every test: nothing of a run stays on the engine.
import { containerHandlerSchema, type JsonValue, type LogLine } from '@belfry/contract'
import * as containers from '../../packages/server/src/adapters/handlers/container/container-handler.ts'
import { createEngineBackend } from '../../packages/server/src/adapters/handlers/container/engine-backend.ts'
import type { ContainerPolicy } from '../../packages/server/src/domain/container/container-policy.ts'
import { parsePolicy } from '../../packages/server/src/domain/egress/egress-policy.ts'
import type { AuditNote } from '../../packages/server/src/ports/audit.ts'
import type { AbortReason, HandlerRequest, HandlerResult } from '../../packages/server/src/ports/handler.ts'
import type { Tunnels } from '../../packages/server/src/ports/tunnels.ts'
import type { HeldName } from '../../packages/server/src/ports/worker-store.ts'
import { createTunnels } from '../../packages/server/src/security/egress/tunnels.ts'
import { type ContainerEngine, testImage } from './container-engine.ts'
import { realClock } from './real-clock.ts'

export type ContainerRigOptions = {
  readonly policy?: Partial<ContainerPolicy>
  readonly secrets?: Readonly<Record<string, string>>
  readonly tunnels?: Tunnels
  readonly stillHeld?: (sessionId: string, runs: readonly HeldName[]) => readonly HeldName[]
}

export type Asked = {
  readonly input?: JsonValue
  readonly runId?: string
  readonly attempt?: number
  readonly leaseEpoch?: number
}

export type Ended = {
  readonly result: HandlerResult
  readonly lines: readonly LogLine[]
  /** What it printed on standard output, as one text. */
  readonly text: string
}

let count = 0
const nextId = (): string =>
  `019ad0c1-7f3e-7c63-9a52-${(process.pid * 100_000 + ++count).toString(16).padStart(12, '0')}`

export const openPolicy = (
  ranges: Parameters<typeof parsePolicy>[0] = { allowCidrs: [] },
): ContainerPolicy => {
  const parsed = parsePolicy(ranges)
  if (!parsed.ok) throw new Error(parsed.faults.map(({ message }) => message).join())
  return {
    images: ['localhost/*'],
    requireDigest: false,
    pull: false,
    maxMemoryMb: 512,
    maxCpuMillis: 2_000,
    maxPids: 256,
    egress: { internet: true, lists: new Map(), policy: parsed.policy },
  }
}

function requestOf(
  fields: object,
  asked: Asked & { readonly runId: string },
  signal: AbortSignal,
): HandlerRequest {
  const { runId } = asked
  return {
    sessionId: '019ad0c1-7f3e-7c63-9a52-00000000aaaa',
    runId,
    tenantId: '019ad0c1-7f3e-7c63-9a52-00000000bbbb',
    jobId: '019ad0c1-7f3e-7c63-9a52-00000000cccc',
    attempt: asked.attempt ?? 1,
    leaseEpoch: asked.leaseEpoch ?? 1,
    scheduledForMs: Date.UTC(2026, 11, 1),
    idempotencyKey: runId,
    input: asked.input ?? null,
    handler: containerHandlerSchema.parse({ kind: 'container', image: testImage, ...fields }),
    runAs: null,
    timeoutMs: 60_000,
    runDeadlineMs: null,
    delivery: 'at_least_once',
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    signal,
  }
}

export function createContainerRig(engine: ContainerEngine, options: ContainerRigOptions = {}) {
  const notes: AuditNote[] = []
  const faults: unknown[] = []
  const backend = createEngineBackend({
    socketPath: engine.socketPath,
    clock: realClock,
    installation: 'test',
    tunnels: options.tunnels ?? createTunnels({ clock: realClock }),
    runtime: undefined,
    stillHeld: async (sessionId, runs) => options.stillHeld?.(sessionId, runs) ?? [],
    onRemoved: () => {},
    onFault: (error) => faults.push(error),
  })
  const logs = new Map<string, LogLine[]>()
  const handler = containers.createContainerHandler({
    backend,
    clock: realClock,
    secrets: {
      resolve: async () => ({ ok: true, values: new Map(Object.entries(options.secrets ?? {})) }),
      masked: async () => Object.values(options.secrets ?? {}),
    },
    workers: {
      async appendLogs(_sessionId, chunks) {
        return chunks.map(({ runId, leaseEpoch, lines }) => {
          const kept = logs.get(runId) ?? []
          logs.set(runId, kept)
          kept.push(...lines)
          return { runId, leaseEpoch, kept: true, full: JSON.stringify(kept).length > 256 * 1024 }
        })
      },
    },
    policyOf: async () => ({ ...openPolicy(), ...options.policy }),
    audit: { note: (note) => void notes.push(note) },
  })

  function begin(fields: object, asked: Asked = {}) {
    const runId = asked.runId ?? nextId()
    const controller = new AbortController()
    const request = requestOf(fields, { ...asked, runId }, controller.signal)
    const linesOf = (): readonly LogLine[] => logs.get(runId) ?? []
    return {
      runId,
      abort: (reason: AbortReason) => controller.abort(reason),
      lines: linesOf,
      ended: handler.execute(request).then((result): Ended => {
        const out = linesOf().filter(({ fields: more }) => more === undefined)
        return { result, lines: linesOf(), text: out.map(({ message }) => message).join('\n') }
      }),
    }
  }

  return {
    notes,
    faults,
    backend,
    begin,
    run: (fields: object, asked: Asked = {}) => begin(fields, asked).ended,
    /** Runs a script of the shell in the image. */
    sh: (script: string, fields: object = {}, asked: Asked = {}) =>
      begin({ command: ['sh', '-c', script], ...fields }, asked).ended,
    close: () => handler.close(),
  }
}

export type ContainerRig = ReturnType<typeof createContainerRig>
