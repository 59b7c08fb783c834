-- How clients are authenticated, what backends are told about them, and what all of them may use together.

-- +goose Up

ALTER TABLE wsbouncer.services ADD COLUMN auth jsonb CHECK (jsonb_typeof(auth) = 'array');
ALTER TABLE wsbouncer.services ADD COLUMN auth_from jsonb CHECK (jsonb_typeof(auth_from) = 'array');
ALTER TABLE wsbouncer.services ADD COLUMN end_unauthorized boolean;
ALTER TABLE wsbouncer.services ADD COLUMN jwt_keys text;
ALTER TABLE wsbouncer.services ADD COLUMN jwt_issuer text;
ALTER TABLE wsbouncer.services ADD COLUMN jwt_audience jsonb CHECK (jsonb_typeof(jwt_audience) = 'array');
ALTER TABLE wsbouncer.services ADD COLUMN jwt_algorithms jsonb CHECK (jsonb_typeof(jwt_algorithms) = 'array');
ALTER TABLE wsbouncer.services ADD COLUMN jwt_leeway text;
ALTER TABLE wsbouncer.services ADD COLUMN jwt_claims jsonb CHECK (jsonb_typeof(jwt_claims) = 'object');
ALTER TABLE wsbouncer.services ADD COLUMN auth_url text;
ALTER TABLE wsbouncer.services ADD COLUMN auth_timeout text;
ALTER TABLE wsbouncer.services ADD COLUMN auth_cache text;
ALTER TABLE wsbouncer.services ADD COLUMN auth_failure text CHECK (auth_failure IN ('deny', 'allow'));
ALTER TABLE wsbouncer.services ADD COLUMN certificate_tenant text CHECK (certificate_tenant IN ('cn', 'o', 'ou', 'dns', 'email', 'uri'));
ALTER TABLE wsbouncer.services ADD COLUMN set_header jsonb CHECK (jsonb_typeof(set_header) = 'object');
ALTER TABLE wsbouncer.services ADD COLUMN set_query jsonb CHECK (jsonb_typeof(set_query) = 'object');
ALTER TABLE wsbouncer.services ADD COLUMN session_limit integer CHECK (session_limit BETWEEN 0 AND 2147483647);
ALTER TABLE wsbouncer.services ADD COLUMN session_rate text;
ALTER TABLE wsbouncer.services ADD COLUMN byte_rate text;
ALTER TABLE wsbouncer.services ADD COLUMN message_rate text;
ALTER TABLE wsbouncer.services ADD COLUMN client_session_limit integer CHECK (client_session_limit BETWEEN 0 AND 2147483647);
ALTER TABLE wsbouncer.services ADD COLUMN client_session_rate text;
ALTER TABLE wsbouncer.services ADD COLUMN client_byte_rate text;
ALTER TABLE wsbouncer.services ADD COLUMN client_message_rate text;
