/**
 * The settings of containers, and what must hold among them. Without an engine a process runs none; without
 * images nobody may save a job that wants one.
 */
import { imagePatternFault } from '@belfry/contract'
import { z } from 'zod'
import { parseHostPattern } from '../domain/container/host-list.ts'
import { about, commaSeparated, flag, list, oneOf, text, whole } from './fields.ts'

const notSocket = 'is not the socket of an engine; write it like unix:///run/podman/podman.sock'

const imagePattern = z.string({ error: 'is not a list of images' }).superRefine((pattern, context) => {
  const fault = imagePatternFault(pattern)
  if (fault !== undefined) context.addIssue({ code: 'custom', message: `holds "${pattern}", which ${fault}` })
})

const notLists = 'is not a list of hosts by name; write it like partners=api.example.com|*.example.org'
/** `name=host|host, name=host` as it is written in a variable; in a file an object of lists. */
const egressLists = z.preprocess(
  (value) => {
    const parts = commaSeparated(value)
    if (!Array.isArray(parts)) return parts
    return Object.fromEntries(
      parts.map((part) => {
        const [name = '', hosts = ''] = String(part).split('=', 2)
        return [name.trim(), hosts.split('|').map((host) => host.trim())]
      }),
    )
  },
  z.record(
    z.string().regex(/^(?!none$|internet$)[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, { error: notLists }),
    z
      .array(
        z.string({ error: notLists }).superRefine((host, context) => {
          const parsed = parseHostPattern(host)
          if (!parsed.ok)
            context.addIssue({ code: 'custom', message: `holds "${host}", which ${parsed.fault}` })
        }),
        { error: notLists },
      )
      .min(1, { error: notLists })
      .max(1_000),
    { error: notLists },
  ),
)

export const containerFields = {
  workerHandlers: list(
    z.enum(['http', 'lambda', 'container'], { error: 'holds what is not http, lambda or container' }),
  )
    .optional()
    .meta(
      about(
        'Kinds of handlers that a worker executes; runs of others are for other workers',
        '`http,lambda`, and `container` where `containerEngine` is set',
      ),
    ),
  containerEngine: z
    .string({ error: notSocket })
    .regex(/^unix:\/\/\/\S+$/, { error: notSocket })
    .optional()
    .meta(
      about(
        'Socket of Docker or Podman, for jobs that run in containers. Whoever can use it is root on that ' +
          'machine: give it to workers alone',
      ),
    ),
  containerSlots: whole(1, 1_000).default(4).meta(about('Containers that a worker runs at once')),
  containerImages: list(imagePattern)
    .default([])
    .meta(
      about(
        'Images that jobs may use, such as registry.example.com/team/*; by default none. A tenant may have ' +
          'a list of its own instead',
      ),
    ),
  containerDigests: oneOf(['required', 'optional'])
    .default('optional')
    .meta(about('Whether images must be named by their digest')),
  containerPull: oneOf(['never', 'missing'])
    .default('never')
    .meta(about('Whether an image that the engine does not have is pulled, from its registry')),
  containerMaxMemoryMb: whole(8, 1_048_576)
    .default(2_048)
    .meta(about('Most memory of one container, in MiB')),
  containerMaxCpuMillis: whole(10, 256_000)
    .default(2_000)
    .meta(about('Most of the processors for one container, in thousandths of one')),
  containerMaxPids: whole(4, 32_768).default(256).meta(about('Most processes of one container')),
  containerInternet: flag
    .default(false)
    .meta(about('Whether containers may have `egress: internet`: public addresses, on `egressPorts`')),
  containerEgressLists: egressLists
    .default({})
    .meta(
      about('Lists of hosts that jobs may name as their egress: `partners=api.example.com|*.example.org`'),
    ),
  containerRuntime: text
    .regex(/^[A-Za-z0-9._-]{1,64}$/, { error: 'is not the name of a runtime' })
    .optional()
    .meta(about('Runtime of the engine, such as `runsc` of gVisor', 'that of the engine')),
}

type ContainerGiven = z.infer<z.ZodObject<typeof containerFields>>
type KubernetesGiven = { readonly kubernetesNamespace?: string | undefined }

/** Calls `fault` for each setting that does not go with the others. */
export function checkContainers(
  { workerHandlers, containerEngine, kubernetesNamespace }: ContainerGiven & KubernetesGiven,
  fault: (key: keyof ContainerGiven, message: string) => void,
): void {
  if (workerHandlers?.includes('container') !== true) return
  if (containerEngine === undefined && kubernetesNamespace === undefined)
    fault(
      'containerEngine',
      'workerHandlers has container, and there is no engine; ' +
        'set BELFRY_CONTAINER_ENGINE=unix:///run/podman/podman.sock',
    )
}
