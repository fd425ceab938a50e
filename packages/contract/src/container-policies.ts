/**
 * What containers of a tenant may be: which images, with or without a digest, how much of the machine, which
 * classes of egress. The operator sets it: for all in the configuration, for one tenant here.
 */
import { z } from 'zod'
import { nameSchema } from './common.ts'
import { imagePatternFault } from './image-reference.ts'

const imagePattern = z.string().superRefine((text, context) => {
  const message = imagePatternFault(text)
  if (message !== undefined) context.addIssue({ code: 'custom', message })
})

const fields = {
  images: z
    .array(imagePattern)
    .max(1_000)
    .meta({ description: '`registry/path`, or `registry/path/*` for all below it; empty: none' }),
  digestsRequired: z.boolean().meta({ description: 'Whether images must be named by their digest' }),
  egress: z
    .array(nameSchema)
    .max(1_000)
    .meta({ description: 'Classes beside `none`: `internet`, and lists of the configuration' }),
  maxMemoryMb: z.int().min(8).max(1_048_576),
  maxCpuMillis: z.int().min(10).max(256_000),
  maxPids: z.int().min(4).max(32_768),
}
export const containerPolicyFields = Object.keys(fields) as (keyof typeof fields)[]

export const containerPolicySchema = z
  .strictObject({
    tenant: nameSchema,
    ...fields,
    ofTenant: z
      .array(z.enum(containerPolicyFields))
      .meta({ description: 'Those that are set for this tenant; the others are those of the configuration' }),
  })
  .meta({ id: 'ContainerPolicy' })
export type ContainerPolicyView = z.infer<typeof containerPolicySchema>

export const containerPolicyUpdateSchema = z
  .strictObject({
    images: fields.images.nullable().optional(),
    digestsRequired: fields.digestsRequired.nullable().optional(),
    egress: fields.egress.nullable().optional(),
    maxMemoryMb: fields.maxMemoryMb.nullable().optional(),
    maxCpuMillis: fields.maxCpuMillis.nullable().optional(),
    maxPids: fields.maxPids.nullable().optional(),
  })
  .refine((policy) => Object.values(policy).some((value) => value !== undefined), {
    error: 'sets nothing; name at least one field',
  })
  .meta({ id: 'ContainerPolicyUpdate', description: 'Null: as the configuration says' })
export type ContainerPolicyUpdate = z.infer<typeof containerPolicyUpdateSchema>
