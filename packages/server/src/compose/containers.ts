/**
 * Containers of a process, from the configuration: what tenants may run, and, where an engine is configured,
 * the handler that runs it.
 */
import { createContainerHandler } from '../adapters/handlers/container/container-handler.ts'
import { createEngineBackend } from '../adapters/handlers/container/engine-backend.ts'
import { openKubernetes } from '../adapters/handlers/kubernetes/kubernetes-api.ts'
import { createKubernetesBackend } from '../adapters/handlers/kubernetes/kubernetes-backend.ts'
import type { Config } from '../config/schema.ts'
import { type ContainerPolicy, policyFor } from '../domain/container/container-policy.ts'
import { parsePolicy } from '../domain/egress/egress-policy.ts'
import type { AuditNotes } from '../ports/audit.ts'
import type { Clock } from '../ports/clock.ts'
import type { ContainerBackend } from '../ports/container-backend.ts'
import type { EventSink } from '../ports/event-sink.ts'
import type { Handler } from '../ports/handler.ts'
import type { SecretSource } from '../ports/secrets.ts'
import type { HeldName, WorkerStore } from '../ports/worker-store.ts'
import { createContainerPolicyReader } from '../postgres/catalog/container-policy-store.ts'
import type { Database } from '../postgres/database.ts'
import { createTunnels } from '../security/egress/tunnels.ts'

/** What holds for every tenant that has nothing of its own. */
export function containerPolicy(config: Config): ContainerPolicy {
  const ranges = {
    allowCidrs: config.egressAllow,
    denyCidrs: config.egressDeny,
    allowPorts: config.egressPorts,
  }
  const parsed = parsePolicy(ranges)
  return {
    images: config.containerImages,
    requireDigest: config.containerDigests === 'required',
    pull: config.containerPull === 'missing',
    maxMemoryMb: config.containerMaxMemoryMb,
    maxCpuMillis: config.containerMaxCpuMillis,
    maxPids: config.containerMaxPids,
    egress: {
      internet: config.containerInternet,
      lists: new Map(Object.entries(config.containerEgressLists)),
      // ranges that cannot be read do not get past the configuration
      policy: parsed.ok ? parsed.policy : { allow: [], deny: [], ports: [] },
    },
  }
}

export interface ContainerParts {
  readonly config: Config
  readonly clock: Clock
  readonly secrets: SecretSource
  readonly workers: Pick<WorkerStore, 'appendLogs' | 'heldAttempts'>
  readonly audit: AuditNotes
  readonly events: EventSink
  readonly db: Database
  readonly installation: string
}

export interface Containers {
  readonly handler: Handler
  readonly slots: number
  /** Looks for what dead workers have left. */
  start(): void
}

/** Undefined where there is no engine, or where this worker is told to leave containers to others. */
export function openContainers(parts: ContainerParts): Containers | undefined {
  const { config } = parts
  if (config.workerHandlers?.includes('container') === false) return undefined
  const backend = openBackend(parts)
  if (backend === undefined) return undefined
  const all = containerPolicy(config)
  const read = createContainerPolicyReader(parts.db)
  const policyOf = async (tenantId: string) => policyFor(all, await read(tenantId))
  return {
    handler: createContainerHandler({ ...parts, backend, policyOf }),
    slots: config.containerSlots,
    start: () => backend.start(),
  }
}

function openBackend(parts: ContainerParts): ContainerBackend | undefined {
  const { config, events } = parts
  const { containerEngine, kubernetesNamespace } = config
  const upkeep = {
    stillHeld: (sessionId: string, runs: readonly HeldName[]) => parts.workers.heldAttempts(sessionId, runs),
    onRemoved: (count: number) => events.emit('containers_removed', { count }),
    onFault: (error: unknown) =>
      events.emit('role_failed', { role: 'container_reaper', error, retryInMs: 10_000 }),
  }
  if (kubernetesNamespace !== undefined)
    return createKubernetesBackend({
      ...parts,
      ...upkeep,
      runtimeClass: config.kubernetesRuntimeClass,
      openApi: () => openKubernetes(kubernetesNamespace, config.kubernetesConfig),
    })
  if (containerEngine === undefined) return undefined
  return createEngineBackend({
    ...parts,
    ...upkeep,
    socketPath: containerEngine.slice('unix://'.length),
    tunnels: createTunnels(parts),
    runtime: config.containerRuntime,
  })
}
