/**
 * What an operator lets containers of a tenant be: images, digests, bounds of limits, classes of egress.
 * Pure. One function judges a handler; it is asked when a job is saved and again when a run begins, so that
 * what is taken back holds for jobs that were saved before.
 */
import type { ContainerHandlerDefinition } from '@belfry/contract'
import { egressDenied, type EgressClasses } from './egress-class.ts'
import { imageDenied, type ImagePolicy } from './image-policy.ts'

export interface ContainerPolicy extends ImagePolicy {
  readonly pull: boolean
  readonly maxMemoryMb: number
  readonly maxCpuMillis: number
  readonly maxPids: number
  readonly egress: EgressClasses
}

/** What an operator set for one tenant; null: as for all. */
export interface PolicyChange {
  readonly images: readonly string[] | null
  readonly digestsRequired: boolean | null
  readonly egress: readonly string[] | null
  readonly maxMemoryMb: number | null
  readonly maxCpuMillis: number | null
  readonly maxPids: number | null
}

/** The policy of one tenant. A class of egress that the server does not have is not made by naming it. */
export function policyFor(all: ContainerPolicy, change: PolicyChange): ContainerPolicy {
  const { egress } = change
  const isOpen = (name: string): boolean => egress === null || egress.includes(name)
  return {
    ...all,
    images: change.images ?? all.images,
    requireDigest: change.digestsRequired ?? all.requireDigest,
    maxMemoryMb: change.maxMemoryMb ?? all.maxMemoryMb,
    maxCpuMillis: change.maxCpuMillis ?? all.maxCpuMillis,
    maxPids: change.maxPids ?? all.maxPids,
    egress: {
      ...all.egress,
      internet: all.egress.internet && isOpen('internet'),
      lists: new Map([...all.egress.lists].filter(([name]) => isOpen(name))),
    },
  }
}

export interface ContainerFault {
  /** RFC 6901, into the handler. */
  readonly pointer: string
  /** Follows the name of the field. */
  readonly message: string
}

export function containerFaults(
  { image, limits, egress }: Pick<ContainerHandlerDefinition, 'image' | 'limits' | 'egress'>,
  policy: ContainerPolicy,
): readonly ContainerFault[] {
  const fault = (pointer: string, message: string | undefined) =>
    message === undefined ? [] : [{ pointer, message }]
  const most = (asked: number, allowed: number, setting: string): string | undefined =>
    asked <= allowed
      ? undefined
      : `is more than the ${allowed} that are allowed; take less, or ask the operator (setting ${setting})`
  return [
    ...fault('/image', imageDenied(image, policy)),
    ...fault('/limits/memoryMb', most(limits.memoryMb, policy.maxMemoryMb, 'containerMaxMemoryMb')),
    ...fault('/limits/cpuMillis', most(limits.cpuMillis, policy.maxCpuMillis, 'containerMaxCpuMillis')),
    ...fault('/limits/pids', most(limits.pids, policy.maxPids, 'containerMaxPids')),
    ...fault('/egress', egressDenied(egress, policy.egress)),
  ]
}
