/**
 * Members: the people of a tenant, each with one role. Somebody is invited with a link that is good for one
 * use, sets a password with it, and is active from then on; with OpenID Connect the first sign-in does the
 * same. A tenant never loses its last active owner.
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema, pageOf, pageQuery, safeText } from './common.ts'

/** A member is a person of one tenant: `worker` is for service accounts, `platform` for keys. */
export const memberRoles = ['owner', 'admin', 'operator', 'developer', 'viewer', 'auditor'] as const
export type MemberRole = (typeof memberRoles)[number]
export const memberStates = ['invited', 'active', 'disabled'] as const
export type MemberState = (typeof memberStates)[number]

const plainAddress = /^[^\s@<>"(),:;\\[\]]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*$/

/** Kept in lower case: two spellings are one person. */
export const emailSchema = safeText(254, 3)
  .regex(plainAddress, { error: 'is not an e-mail address; write it like ada@example.com' })
  .toLowerCase()
  .meta({ examples: ['ada@example.com'] })

/** What a person is called; control characters would be shown to others. */
export const personNameSchema = safeText(128, 1)
  .regex(/^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$/u, { error: 'holds characters that cannot be seen; leave them out' })
  .regex(/\S/, { error: 'is blank; write a name' })

export const minPasswordLength = 12
export const maxPasswordLength = 256

/** How strong it is is judged by the server (domain/secret-strength.ts). */
export const newPasswordSchema = safeText(maxPasswordLength, minPasswordLength).meta({
  description: `${minPasswordLength} characters at least, of which many differ; no known example`,
})
/** A password that is only compared. */
export const passwordSchema = z.string().min(1).max(maxPasswordLength)

const role = z.enum(memberRoles)

export const memberCreateSchema = z
  .strictObject({
    email: emailSchema,
    name: personNameSchema.optional().meta({ description: 'Left out: the e-mail address' }),
    role: role.meta({ description: 'Nobody gives a role that may do more than he may' }),
    tenant: nameSchema
      .optional()
      .meta({ description: 'Another tenant than your own; needs the permission `tenant.manage`' }),
  })
  .meta({ id: 'MemberCreate' })

export const memberUpdateSchema = z
  .strictObject({
    name: personNameSchema.optional(),
    role: role.optional(),
    state: z
      .enum(['active', 'disabled'])
      .optional()
      .meta({ description: '`disabled` ends all sessions and keys of the member within 5 s' }),
  })
  .meta({ id: 'MemberUpdate' })

export const memberSchema = z
  .strictObject({
    id: idSchema,
    email: z.string(),
    name: z.string(),
    role,
    roleFrom: z
      .enum(['members', 'issuer'])
      .meta({ description: '`issuer`: the groups at the OpenID provider say it, at each sign-in' }),
    state: z.enum(memberStates),
    signsInWith: z.enum(['password', 'oidc']).meta({ description: '`oidc`: known at the OpenID provider' }),
    inviteEndsAt: instantSchema.nullable().meta({ description: 'Null: there is no link that waits for use' }),
    createdAt: instantSchema,
    lastSignInAt: instantSchema.nullable(),
  })
  .meta({ id: 'Member' })
export type Member = z.infer<typeof memberSchema>

export const memberInvitedSchema = z
  .strictObject({
    ...memberSchema.shape,
    inviteToken: z
      .string()
      .nullable()
      .meta({
        description:
          'What the person sets a password with, once, within seven days; shown this once, stored nowhere. ' +
          'Null in a dry run, and when an Idempotency-Key replays the answer: then make a new one.',
      }),
  })
  .meta({ id: 'MemberInvited' })
export type MemberInvited = z.infer<typeof memberInvitedSchema>

export const memberListQuery = z.strictObject({ ...pageQuery })
export const memberPageSchema = pageOf(memberSchema)

/** Nothing may be said; the body may be left out. */
export const memberInviteSchema = z.strictObject({}).meta({ id: 'MemberInvite' })
