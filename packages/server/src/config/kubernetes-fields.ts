/**
 * The settings of containers as Jobs of Kubernetes, in the place of an engine. The account that Belfry uses
 * there needs the rights of deploy/kubernetes/worker.yaml, in one namespace of its own, and no others.
 */
import type { z } from 'zod'
import { about, text } from './fields.ts'

const dnsLabel = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

export const kubernetesFields = {
  kubernetesNamespace: text
    .regex(dnsLabel, { error: 'is not the name of a namespace' })
    .optional()
    .meta(
      about(
        'Namespace of Kubernetes in which containers of jobs run, each as a Job; in the place of ' +
          '`containerEngine`. Needs the package @kubernetes/client-node beside Belfry',
      ),
    ),
  kubernetesConfig: text
    .optional()
    .meta(about('Path of a kubeconfig file', 'the service account of the pod in which Belfry runs')),
  kubernetesRuntimeClass: text
    .regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, { error: 'is not the name of a RuntimeClass' })
    .optional()
    .meta(about('RuntimeClass of the pods, such as one of gVisor', 'that of the cluster')),
}

type KubernetesGiven = z.infer<z.ZodObject<typeof kubernetesFields>> & {
  readonly containerEngine?: string | undefined
}

/** Calls `fault` for each setting that does not go with the others. */
export function checkKubernetes(
  { kubernetesNamespace, kubernetesConfig, kubernetesRuntimeClass, containerEngine }: KubernetesGiven,
  fault: (key: keyof KubernetesGiven, message: string) => void,
): void {
  if (kubernetesNamespace !== undefined && containerEngine !== undefined)
    fault('kubernetesNamespace', 'and containerEngine are both set; containers run on one of them')
  if (kubernetesNamespace !== undefined) return
  if (kubernetesConfig !== undefined)
    fault('kubernetesConfig', 'says nothing without kubernetesNamespace; set that too')
  if (kubernetesRuntimeClass !== undefined)
    fault('kubernetesRuntimeClass', 'says nothing without kubernetesNamespace; set that too')
}
