/**
 * What the claims of an OpenID provider come to: whether a person may come in at all, by which address he is
 * known, and with which role.
 */
import { type MemberRole, memberRoles } from '@belfry/contract'

/** What the provider said of somebody, proved. */
export interface IdentityClaims {
  readonly issuer: string
  readonly subject: string
  readonly email: string | null
  readonly emailVerified: boolean
  readonly name: string | null
  readonly groups: readonly string[]
}

export interface IssuerRules {
  /** In lower case; none: every domain. */
  readonly domains: readonly string[]
  readonly roleOfGroup: ReadonlyMap<string, MemberRole>
  /** Of somebody whose groups say nothing; null: nobody comes in by the provider alone. */
  readonly defaultRole: MemberRole | null
}

/**
 * The address by which somebody may be known, in lower case; undefined: none that the provider vouches for,
 * or one of another domain.
 */
export function vouchedEmail(
  { email, emailVerified }: Pick<IdentityClaims, 'email' | 'emailVerified'>,
  { domains }: Pick<IssuerRules, 'domains'>,
): string | undefined {
  if (email === null || !emailVerified) return undefined
  const plain = email.toLowerCase()
  const domain = plain.slice(plain.lastIndexOf('@') + 1)
  return domains.length === 0 || domains.includes(domain) ? plain : undefined
}

/** The role of the group that may do most; null: the groups say nothing, and there is no default. */
export function issuedRole(
  groups: readonly string[],
  { roleOfGroup, defaultRole }: Pick<IssuerRules, 'roleOfGroup' | 'defaultRole'>,
): MemberRole | null {
  const given = new Set(groups.flatMap((group) => roleOfGroup.get(group) ?? []))
  return memberRoles.find((role) => given.has(role)) ?? defaultRole
}
