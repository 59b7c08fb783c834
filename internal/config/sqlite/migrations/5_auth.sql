-- How clients are authenticated, what backends are told about them, and what all of them may use together.

-- +goose Up

ALTER TABLE services ADD COLUMN auth TEXT CHECK (json_valid(auth) AND json_type(auth) = 'array');
ALTER TABLE services ADD COLUMN auth_from TEXT CHECK (json_valid(auth_from) AND json_type(auth_from) = 'array');
ALTER TABLE services ADD COLUMN end_unauthorized TEXT CHECK (end_unauthorized IN ('true', 'false'));
ALTER TABLE services ADD COLUMN jwt_keys TEXT;
ALTER TABLE services ADD COLUMN jwt_issuer TEXT;
ALTER TABLE services ADD COLUMN jwt_audience TEXT CHECK (json_valid(jwt_audience) AND json_type(jwt_audience) = 'array');
ALTER TABLE services ADD COLUMN jwt_algorithms TEXT CHECK (json_valid(jwt_algorithms) AND json_type(jwt_algorithms) = 'array');
ALTER TABLE services ADD COLUMN jwt_leeway TEXT;
ALTER TABLE services ADD COLUMN jwt_claims TEXT CHECK (json_valid(jwt_claims) AND json_type(jwt_claims) = 'object');
ALTER TABLE services ADD COLUMN auth_url TEXT;
ALTER TABLE services ADD COLUMN auth_timeout TEXT;
ALTER TABLE services ADD COLUMN auth_cache TEXT;
ALTER TABLE services ADD COLUMN auth_failure TEXT CHECK (auth_failure IN ('deny', 'allow'));
ALTER TABLE services ADD COLUMN certificate_tenant TEXT CHECK (certificate_tenant IN ('cn', 'o', 'ou', 'dns', 'email', 'uri'));
ALTER TABLE services ADD COLUMN set_header TEXT CHECK (json_valid(set_header) AND json_type(set_header) = 'object');
ALTER TABLE services ADD COLUMN set_query TEXT CHECK (json_valid(set_query) AND json_type(set_query) = 'object');
ALTER TABLE services ADD COLUMN session_limit INTEGER CHECK (session_limit BETWEEN 0 AND 2147483647);
ALTER TABLE services ADD COLUMN session_rate TEXT;
ALTER TABLE services ADD COLUMN byte_rate TEXT;
ALTER TABLE services ADD COLUMN message_rate TEXT;
ALTER TABLE services ADD COLUMN client_session_limit INTEGER CHECK (client_session_limit BETWEEN 0 AND 2147483647);
ALTER TABLE services ADD COLUMN client_session_rate TEXT;
ALTER TABLE services ADD COLUMN client_byte_rate TEXT;
ALTER TABLE services ADD COLUMN client_message_rate TEXT;
