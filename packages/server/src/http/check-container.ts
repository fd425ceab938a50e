/**
 * Whether a container may be what a handler says, by the policy of the tenant: asked when it is saved. It is
 * asked again when a run begins, since the policy may have changed.
 */
import { BelfryError, type JobHandler } from '@belfry/contract'
import { containerFaults, type ContainerPolicy, policyFor } from '../domain/container/container-policy.ts'
import type { CatalogTx } from '../ports/catalog.ts'
import type { Tools } from './endpoint.ts'

/** Throws `invalid_target`, with pointers below that of the handler. */
export async function checkContainer(
  tx: Pick<CatalogTx, 'containerPolicy'>,
  tools: Pick<Tools, 'containers'>,
  handler: JobHandler,
  pointer = '/handler',
): Promise<void> {
  if (handler.kind !== 'container') return
  const policy = policyFor(tools.containers, await tx.containerPolicy.read())
  const faults = containerFaults(handler, policy)
  if (faults.length === 0) return
  const errors = faults.map((fault) => ({ pointer: `${pointer}${fault.pointer}`, message: fault.message }))
  const words = errors.map((fault) => `${fault.pointer} ${fault.message}`).join('; ')
  throw new BelfryError('invalid_target', `The container is not allowed: ${words}.`, { errors })
}

/** Of a server that was told nothing of containers. */
export const noContainers: ContainerPolicy = {
  images: [],
  requireDigest: false,
  pull: false,
  maxMemoryMb: 2_048,
  maxCpuMillis: 2_000,
  maxPids: 256,
  egress: { internet: false, lists: new Map(), policy: { allow: [], deny: [], ports: [] } },
}
