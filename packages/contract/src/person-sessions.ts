/**
 * Sessions of people: how somebody signs in, and what he is signed in with. In a browser the session is a
 * cookie that no script can read; elsewhere a token that goes into `Authorization: Bearer …`, as an API key
 * does. (Sessions of workers are another thing: workers.ts.)
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema, pageOf, pageQuery, safeText } from './common.ts'
import { emailSchema, memberSchema, newPasswordSchema, passwordSchema, personNameSchema } from './members.ts'

/** Where the session goes: into a cookie (browsers), or into the answer (everything else). */
const answerAs = z
  .enum(['cookie', 'token'])
  .default('cookie')
  .meta({ description: '`cookie`: in a cookie that scripts cannot read; `token`: in the answer' })

export const signInSchema = z
  .strictObject({
    email: emailSchema,
    password: passwordSchema,
    tenant: nameSchema.optional().meta({ description: 'Left out: the only tenant that the e-mail is in' }),
    answer: answerAs,
  })
  .meta({ id: 'SignIn' })

export const inviteAcceptSchema = z
  .strictObject({
    token: z.string().min(1).max(200),
    password: newPasswordSchema,
    name: personNameSchema.optional(),
    answer: answerAs,
  })
  .meta({ id: 'InviteAccept' })

export const passwordChangeSchema = z
  .strictObject({ currentPassword: passwordSchema, newPassword: newPasswordSchema })
  .meta({ id: 'PasswordChange' })

export const personSessionSchema = z
  .strictObject({
    id: idSchema,
    memberId: idSchema,
    method: z.enum(['password', 'invite', 'oidc']),
    address: z.string().meta({ description: 'Where the sign-in came from' }),
    userAgent: z.string(),
    current: z.boolean().meta({ description: 'It is the one that asks' }),
    createdAt: instantSchema,
    lastSeenAt: instantSchema.meta({ description: 'To the minute' }),
    endsAt: instantSchema.meta({ description: 'When it ends without a further request, at the latest' }),
    endedAt: instantSchema.nullable(),
  })
  .meta({ id: 'PersonSession' })
export type PersonSession = z.infer<typeof personSessionSchema>

export const signedInSchema = z
  .strictObject({
    session: personSessionSchema,
    member: memberSchema,
    tenant: z.strictObject({ id: idSchema, name: z.string() }),
    token: z
      .string()
      .nullable()
      .meta({ description: 'For `Authorization: Bearer …`; null where the session is in the cookie' }),
  })
  .meta({ id: 'SignedIn' })
export type SignedIn = z.infer<typeof signedInSchema>

export const personSessionListQuery = z.strictObject({
  ...pageQuery,
  memberId: idSchema.optional().meta({ description: 'Of another member; needs `member.read`' }),
})
export const personSessionPageSchema = pageOf(personSessionSchema)

/** Nothing may be said; the body may be left out. */
export const sessionEndSchema = z.strictObject({}).meta({ id: 'SessionEnd' })

/** How somebody may sign in here, for whoever shows a form. */
export const signInWaysSchema = z
  .strictObject({
    cookies: z.boolean().meta({ description: 'Whether a browser can be signed in at this address' }),
    password: z.boolean(),
    oidc: z
      .strictObject({ issuer: z.string(), start: z.string() })
      .nullable()
      .meta({ description: 'Where to go for the OpenID provider; null: there is none' }),
  })
  .meta({ id: 'SignInWays' })

export const oidcStartQuery = z.strictObject({
  next: z
    .string()
    .max(2048)
    .optional()
    .meta({ description: 'Path of this server to go to afterwards; anything else becomes `/`' }),
})
/** What providers send back; parts that Belfry does not read are let pass. */
export const oidcCallbackQuery = z.looseObject({
  state: safeText(1024).optional(),
  code: safeText(4096).optional(),
  error: safeText(1024).optional(),
})
