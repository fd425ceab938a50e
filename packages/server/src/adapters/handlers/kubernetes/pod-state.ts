/**
 * What the pod of an attempt says of it. Pure.
 *
 *   waiting   not started yet; `stuck` where it never will as it is
 *   running
 *   ended     exit code, and the termination message, which is the result
 */
import type { ContainerEnd, ContainerPlan, ResultFile } from '../../../ports/container-backend.ts'
import { containerName, longestResult } from './job-manifest.ts'
import type { Pod } from './kubernetes-api.ts'

export type PodState =
  | { readonly kind: 'waiting'; readonly stuck: Extract<ContainerEnd, { kind: 'failed' }> | undefined }
  | { readonly kind: 'running' }
  | {
      readonly kind: 'ended'
      readonly exitCode: number
      readonly outOfMemory: boolean
      readonly message: string
    }
  /** Evicted, or its node is gone: nobody can say how it ended. */
  | { readonly kind: 'lost'; readonly why: string }

/** Reasons of the kubelet for an image that will not come. */
const imageReasons = /^(?:ErrImageNeverPull|InvalidImageName|ErrImagePull|ImagePullBackOff)$/
/** Reasons that the job alone can mend. */
const startReasons = /^(?:CreateContainerError|RunContainerError|StartError)$/

const imageFix = 'correct the image, or let it be pulled (setting containerPull)'

export function podState(pod: Pod): PodState {
  const status = pod.status?.containerStatuses?.find(({ name }) => name === containerName)
  const { terminated, waiting, running } = status?.state ?? {}
  if (terminated !== undefined) {
    if (startReasons.test(terminated.reason ?? ''))
      return { kind: 'waiting', stuck: notStarted(terminated.message ?? terminated.reason ?? '') }
    const { exitCode, reason, message = '' } = terminated
    return { kind: 'ended', exitCode, outOfMemory: reason === 'OOMKilled', message }
  }
  if (running !== undefined) return { kind: 'running' }
  if (pod.status?.phase === 'Failed')
    return { kind: 'lost', why: pod.status.message ?? pod.status.reason ?? 'its pod failed' }
  const reason = waiting?.reason ?? ''
  const words = waiting?.message ?? reason
  if (imageReasons.test(reason))
    return {
      kind: 'waiting',
      stuck: {
        kind: 'failed',
        code: 'container_image_missing',
        message: `The image does not come: ${words}; ${imageFix}.`,
        retryable: false,
      },
    }
  return { kind: 'waiting', stuck: startReasons.test(reason) ? notStarted(words) : undefined }
}

const notStarted = (words: string): Extract<ContainerEnd, { kind: 'failed' }> => ({
  kind: 'failed',
  code: 'container_not_started',
  message: `The container does not start: ${words}`,
  retryable: false,
})

export function resultOf(
  { resultFileBytes }: Pick<ContainerPlan, 'resultFileBytes'>,
  message: string,
): ResultFile | undefined {
  if (resultFileBytes === undefined) return undefined
  const bytes = Buffer.from(message, 'utf8')
  return bytes.length >= longestResult ? { kind: 'too_large' } : { kind: 'file', bytes }
}
